"""Calls of operators of `ai.onnx.ml`: their names, their inputs, their attributes."""

import numpy as np
from bodies import DRAW, integers, normal, signed

X, NAN = normal(6, 5), float("nan")
CODES = DRAW.integers(0, 6, (4, 3))
FLOAT_CODES = CODES.astype(np.float32)
HOLES = X.copy()
HOLES[0, 1] = HOLES[2, 2] = np.nan
ZEROS = X.copy()
ZEROS[3, 3] = ZEROS[1, 0] = 0


def floats(count):
    return [float(each) for each in normal(count)]


def linear(rows, labels, **words):
    return {"coefficients": floats(5 * rows), "intercepts": floats(rows), "classlabels_ints": labels} | words


def machine(kind, **words):
    vectors = {"n_supports": 4, "support_vectors": floats(20), "coefficients": floats(4), "rho": [0.4]}
    return {"kernel_type": kind, "kernel_params": [0.3, 0.2, 3.0], **vectors, **words}


def judges(kind, counts, **words):
    """A machine that tells as many classes apart as there are counts of vectors."""
    total, classes = sum(counts), len(counts)
    vectors = {"support_vectors": floats(5 * total), "coefficients": floats(total * (classes - 1))}
    offsets = {"rho": floats(classes * (classes - 1) // 2), "classlabels_ints": [5, 3, 9, 7][:classes]}
    return {
        "kernel_type": kind,
        "kernel_params": [0.3, 0.2, 3.0],
        "vectors_per_class": counts,
        **vectors,
        **offsets,
        **words,
    }


TEXTS = {"coefficients": floats(10), "intercepts": floats(2), "classlabels_strings": ["a", "b"]}
BOTH = {"outputs": ["label", "scores"]}
CASES_LEARNING = [
    *[
        ("LinearClassifier", [X], {**linear(len(labels), labels, post_transform=word), **BOTH})
        for word in ("NONE", "LOGISTIC", "SOFTMAX")
        for labels in ([3, 7], [3, 9, 7])
    ],
    *[("LinearClassifier", [X], {**linear(1, [3, 7], post_transform=word), **BOTH}) for word in ("NONE", "LOGISTIC")],
    ("LinearClassifier", [signed(6, 5).astype(np.int64)], {**linear(3, [1, 2, 3]), **BOTH}),
    ("LinearClassifier", [X[0]], {**linear(3, [1, 2, 3]), **BOTH}),
    ("OneHotEncoder", [CODES], {"cats_int64s": [1, 2, 4]}),
    ("OneHotEncoder", [FLOAT_CODES + np.float32(0.5)], {"cats_int64s": [1, 5, -4, 2], "zeros": 1}),
    ("OneHotEncoder", [CODES[0]], {"cats_int64s": [1, 0]}),
    ("LabelEncoder", [CODES], {"keys_int64s": [1, 2, 4], "values_int64s": [10, 20, -4], "default_int64": 7}),
    ("LabelEncoder", [CODES], {"keys_int64s": [1, 2, 4], "values_floats": [1.5, 2.5, -4.5]}),
    ("LabelEncoder", [FLOAT_CODES], {"keys_floats": [1.0, 2.0, 4.0], "values_int64s": [10, 20, -4]}),
    (
        "LabelEncoder",
        [FLOAT_CODES],
        {"keys_floats": [1.0, 2.0, 0.0], "values_floats": [1.5, 2.5, -4.5], "default_float": 3.5},
    ),
    ("ArrayFeatureExtractor", [X, integers(3, 1, 1)], {}),
    ("ArrayFeatureExtractor", [X, integers([3, 1])], {}),
    ("ArrayFeatureExtractor", [normal(2, 3, 4), integers(3)], {}),
    ("FeatureVectorizer", [X, normal(6, 2), normal(6, 1)], {"inputdimensions": [5, 2, 1]}),
    ("FeatureVectorizer", [CODES, CODES[:, :2]], {"inputdimensions": [3, 2]}),
    ("Imputer", [HOLES], {"imputed_value_floats": [1.5], "replaced_value_float": NAN}),
    ("Imputer", [HOLES], {"imputed_value_floats": floats(5), "replaced_value_float": NAN}),
    ("Imputer", [ZEROS], {"imputed_value_floats": floats(5)}),
    ("Imputer", [CODES], {"imputed_value_int64s": [2, 30, 40], "replaced_value_int64": 3}),
    *[
        ("SVMClassifier", [normal(50, 5)], judges(kind, counts, outputs=["label", "scores"]))
        for kind in ("RBF", "LINEAR")
        for counts in ([3, 2], [2, 3, 2], [1, 3, 2, 4])
    ],
    *[("SVMRegressor", [X], machine(kind)) for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")],
    ("SVMRegressor", [X], machine("RBF", one_class=1)),
    ("SVMRegressor", [X], machine("LINEAR", n_supports=0, coefficients=floats(5))),
]
UNKNOWN_LEARNING = {
    "labels that are texts": ("LinearClassifier", [X], TEXTS),
    "a label too few": ("LinearClassifier", [X], linear(3, [1, 2])),
    "a transform that skips zeros": ("LinearClassifier", [X], linear(2, [1, 2], post_transform="SOFTMAX_ZERO")),
    "a softmax of one row": ("LinearClassifier", [X], linear(1, [1, 2], post_transform="SOFTMAX")),
    "no intercepts": ("LinearClassifier", [X], {"coefficients": floats(10), "classlabels_ints": [1, 2]}),
    "a category that comes twice": ("OneHotEncoder", [CODES], {"cats_int64s": [1, 2, 1]}),
    "categories that are texts": ("OneHotEncoder", [CODES], {"cats_strings": ["a"]}),
    "an error for others": ("OneHotEncoder", [CODES], {"cats_int64s": [1, 2], "zeros": 0}),
    "a key that comes twice": ("LabelEncoder", [CODES], {"keys_int64s": [1, 1], "values_int64s": [1, 2]}),
    "a key that is no number": ("LabelEncoder", [X], {"keys_floats": [NAN], "values_floats": [1.0]}),
    "a value too few": ("LabelEncoder", [CODES], {"keys_int64s": [1, 2], "values_int64s": [1]}),
    "texts for keys": ("LabelEncoder", [CODES], {"keys_strings": ["a"], "values_int64s": [1]}),
    "features of one axis": ("ArrayFeatureExtractor", [X[0], integers(3)], {}),
    "a width that is another": ("FeatureVectorizer", [CODES], {"inputdimensions": [2]}),
    "two values for five columns": ("Imputer", [X], {"imputed_value_floats": [1.0, 2.0]}),
    "no value": ("Imputer", [X], {}),
    "a kernel nobody knows": ("SVMRegressor", [X], machine("OTHER")),
    "probabilities": ("SVMClassifier", [X], judges("RBF", [3, 2], prob_a=[1.0], prob_b=[0.5])),
    "a class without vectors": ("SVMClassifier", [X], judges("RBF", [3, 0, 2])),
    "a transform of decisions": ("SVMClassifier", [X], judges("RBF", [3, 2], post_transform="LOGISTIC")),
    "vectors of no width": ("SVMRegressor", [X], machine("RBF", n_supports=3)),
}
