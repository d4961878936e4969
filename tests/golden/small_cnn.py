def apply(params, state, x, *, training=False, rng=None):
    conv2d = Conv(x, params['conv.weight'], pads=(1, 1, 1, 1), strides=(2, 2))
    getitem, getitem_mean, getitem_var = BatchNormalization(conv2d, params['norm.weight'], params['norm.bias'], state['norm.running_mean'], state['norm.running_var'], momentum=0.7, training_mode=training, unbiased=1)
    relu = Relu(getitem)
    max_pool2d = MaxPool(relu, ceil_mode=1, kernel_shape=(2, 2), strides=(2, 2))
    conv2d_1 = Conv(max_pool2d, params['depthwise.weight'], params['depthwise.bias'], group=4)
    gelu = Gelu(conv2d_1, approximate='tanh')
    mul_15 = Mul(gelu, 2.5)
    view = Reshape(mul_15, (-1, 24), allowzero=1)
    getitem_5 = Dropout(view, 0.25, training, seed=1, rng=rng)
    linear = Gemm(getitem_5, params['fc.weight'], params['fc.bias'], transB=1)
    softmax = Softmax(linear)
    return (softmax,), {'norm.running_mean': getitem_mean, 'norm.running_var': getitem_var}
