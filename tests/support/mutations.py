"""Breaks ONNX files at random, reproducibly, and watches the reader take them: python mutations.py FOLDER FIRST LAST

FOLDER has intact files. Every mutation is read, normalised, folded and printed; a JSON line before and one after
each report its outcome, so that a reader knows which one killed this process or hangs.
"""

import json
import logging
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor

MEMORY = 2 << 30
NUMBERS = (0, 1, -1, 2, 3, 7, 8, 16, 20, 64, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), -2)
WORDS = ("", "x", "y", "a\x1b[31mb", "\n", "../x", "/etc/hostname", "ai.onnx", "com.microsoft", "\u202e", "é" * 300)
INTEGERS = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_INT64: 64, FieldDescriptor.TYPE_UINT64: 0}


# ***** bytes *****


def flip(data, random):
    data = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 30))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def cut(data, random):
    return data[: random.randrange(len(data))]


def delete(data, random):
    start = random.randrange(len(data))
    return data[:start] + data[start + random.choice((1, 2, 3, 10, 1000)) :]


def splice(data, random):
    start, end = sorted(random.randrange(len(data)) for _ in range(2))
    place = random.randrange(len(data))
    return data[:place] + data[start : min(end, start + 2000)] + data[place:]


def varint(data, random):
    """A number or a length somewhere becomes one of up to ten bytes."""
    place = random.randrange(min(len(data), random.choice((64, 4096, len(data)))))
    return data[:place] + bytes([0xFF] * random.randrange(1, 10) + [random.randrange(128)]) + data[place + 1 :]


# ***** structure *****


def messages(message, depth=0):
    """Every message inside a message, itself included."""
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                yield from messages(each, depth + 1)


def scalar(field, random):
    if field.type in INTEGERS:
        bits = INTEGERS[field.type]
        value = random.choice(NUMBERS)
        return value % 2**64 if not bits else max(min(value, 2 ** (bits - 1) - 1), -(2 ** (bits - 1)))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if field.type == FieldDescriptor.TYPE_STRING:
        return random.choice(WORDS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return random.choice((b"", b"\x00", b"\xff" * 8, b"NOTSET", b"SAME_UPPER", b"ij,jk->ik", b"linear"))
    return random.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))


def change(message, random):
    """One field of a message: set, cleared, doubled, dropped or moved."""
    fields = [field for field, _ in message.ListFields() if field.name != "raw_data"] or message.DESCRIPTOR.fields
    field = random.choice(fields if random.random() < 0.8 else message.DESCRIPTOR.fields)
    if field.is_repeated:
        return change_list(getattr(message, field.name), field, random)
    if field.type == FieldDescriptor.TYPE_MESSAGE or random.random() < 0.1:
        return message.ClearField(field.name)
    return setattr(message, field.name, scalar(field, random))


def change_list(values, field, random):
    action = random.choice(("drop", "double", "swap", "set", "set", "add"))
    nested = field.type == FieldDescriptor.TYPE_MESSAGE
    if not values or action == "add":
        return values.add() if nested else values.append(scalar(field, random))
    at, other = random.randrange(len(values)), random.randrange(len(values))
    if action == "drop":
        del values[at]
    elif action == "double":
        values.append(values[at])
    elif nested and action == "swap":
        kept = type(values[at]).FromString(values[at].SerializeToString())
        values[at].CopyFrom(values[other])
        values[other].CopyFrom(kept)
    elif nested:
        change(values[at], random)
    elif action == "swap":
        values[at], values[other] = values[other], values[at]
    else:
        values[at] = scalar(field, random)
    return None


def structure(data, random):
    model = onnx.ModelProto.FromString(data)
    small = [message for message in messages(model) if message.DESCRIPTOR.name != "StringStringEntryProto"]
    for _ in range(random.choice((1, 1, 2, 4))):
        change(random.choice(small), random)
    return model.SerializeToString()


def of_type(data, kind):
    model = onnx.ModelProto.FromString(data)
    return model, [message for message in messages(model) if message.DESCRIPTOR.name == kind]


def rewire(data, random):
    """Nodes read and write other names."""
    model, nodes = of_type(data, "NodeProto")
    names = [name for node in nodes for name in (*node.input, *node.output)]
    for _ in range(random.choice((1, 1, 3))):
        node = random.choice(nodes)
        side = random.choice([side for side in (node.input, node.output) if side] or [node.input])
        if side:
            side[random.randrange(len(side))] = random.choice(names)
        else:
            side.append(random.choice(names))
    return model.SerializeToString()


def retype(data, random):
    """Shapes and element types of values and tensors."""
    model, axes = of_type(data, "Dimension")
    kinds = [m for m in messages(model) if m.DESCRIPTOR.name in ("Tensor", "TensorProto")]
    for _ in range(random.choice((1, 2, 4))):
        if axes and random.random() < 0.5:
            random.choice(axes).dim_value = random.choice(NUMBERS)
        elif kinds:
            kind = random.choice(kinds)
            setattr(kind, "elem_type" if kind.DESCRIPTOR.name == "Tensor" else "data_type", random.randrange(28))
    return model.SerializeToString()


def reshape(data, random):
    """A tensor's values, where they may be shapes, axes or indices, and its own dimensions."""
    model, tensors = of_type(data, "TensorProto")
    tensors = [tensor for tensor in tensors if len(tensor.raw_data) <= 64]
    for _ in range(random.choice((1, 1, 2))):
        if not tensors:
            break
        tensor = random.choice(tensors)
        if random.random() < 0.3:
            tensor.dims[:] = [random.choice(NUMBERS) for _ in range(random.randrange(4))]
        elif tensor.raw_data:
            size = random.choice((8, 4))
            place = random.randrange(len(tensor.raw_data)) // size * size
            value = (random.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
            tensor.raw_data = (tensor.raw_data[:place] + value + tensor.raw_data[place + size :])[
                : len(tensor.raw_data)
            ]
        elif tensor.int64_data:
            tensor.int64_data[random.randrange(len(tensor.int64_data))] = random.choice(NUMBERS)
    return model.SerializeToString()


def operator(data, random):
    """Another operator with the same inputs and attributes, or another attribute value."""
    model, nodes = of_type(data, "NodeProto")
    for _ in range(random.choice((1, 1, 2))):
        node = random.choice(nodes)
        if node.attribute and random.random() < 0.6:
            change(random.choice(node.attribute), random)
        else:
            node.op_type = random.choice(OPERATORS)
            if random.random() < 0.5:
                del node.attribute[:]
    return model.SerializeToString()


def opset(data, random):
    """An older version, which ONNX's own converter has to upgrade; often with another change."""
    model = onnx.ModelProto.FromString(data)
    model.opset_import[0].version = random.randrange(1, 30)
    model.ir_version = random.choice((3, 4, 7, 8, 10, 13))
    data = model.SerializeToString()
    return random.choice((lambda data, _: data, operator, rewire, reshape, structure))(data, random)


OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
KINDS = (
    flip,
    cut,
    delete,
    splice,
    varint,
    structure,
    structure,
    rewire,
    retype,
    reshape,
    operator,
    operator,
    opset,
    opset,
)


def mutation(files, seed):
    """The file, the kind and the bytes of one mutation."""
    own = random.Random(seed)
    file, kind = files[seed % len(files)], own.choice(KINDS)
    return file, kind, kind(file.read_bytes(), own)


# ***** the process that reads them *****


def read_as_a_user_would(path):
    """What `xbench convert` does with a file before any framework sees it; "read", or the line that says why not."""
    from xbench.converters import UnsupportedOps
    from xbench.converters.codegen.program import convert
    from xbench.converters.frontends.folding import fold
    from xbench.converters.frontends.onnx_file import InvalidModel, canonical, read

    try:
        model = canonical(read(path), path.parent)
        fold(model)
        convert(model, [])
    except (InvalidModel, UnsupportedOps) as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def main(folder, first, last, step=1):
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    files = sorted(Path(folder).glob("*.onnx"))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "model.onnx")
        for seed in range(first, last, step):
            file, kind, data = mutation(files, seed)
            path.write_bytes(data)
            facts = {"seed": seed, "file": file.stem, "kind": kind.__name__}
            print(json.dumps(facts), flush=True)
            start = time.monotonic()
            try:
                answer = read_as_a_user_would(path)
            except Exception as error:
                answer = f"BAD {type(error).__name__}: {error}"
            print(json.dumps(facts | {"answer": answer, "seconds": time.monotonic() - start}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
