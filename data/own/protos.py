"""Reads the sets of tensors that ONNX's models come with: `test_data_set_0/input_0.pb`, one file for each input."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import content, listed, readable, shown
from xbench.data.own.slots import Asked, Piece, Slot, is_one, whole_piece


def pieces(folders: Sequence[Path], asked: Asked) -> Iterator[Piece]:
    """The sets, each a batch by itself. An input is found by its name if the tensors have the names of the inputs, else
    by its number.

    Raises:
        BadData: a file is damaged; an input is missing, or of another shape than the network's.
    """
    for folder in folders:
        where = shown(folder.name or folder)
        numbers = {int(name[6:-3]): name for name in listed(folder) if re.fullmatch(r"input_[0-9]{1,9}\.pb", name)}
        tensors = {number: tensor(folder / name) for number, name in numbers.items()}
        arrays = [_of_slot(tensors, number, asked.slots, where) for number in range(len(asked.slots))]
        lone = all(slot.shared or is_one(slot, array.shape) for slot, array in zip(asked.slots, arrays))
        piece = whole_piece(asked.slots, arrays, None, where, 0)
        yield dataclasses.replace(piece, first=None if lone else 0, apart=True)


def _of_slot(tensors: dict[int, tuple[str, np.ndarray]], number: int, slots: Sequence[Slot], where: str) -> np.ndarray:
    by_name = dict(tensors.values())
    if {slot.name for slot in slots} <= {*by_name}:
        return by_name[slots[number].name]
    if number not in tensors:
        raise BadData(f"{where} has no input_{number}.pb, for {shown(slots[number].name)}")
    return tensors[number][1]


def tensor(path: Path) -> tuple[str, np.ndarray]:
    """A TensorProto's name and values.

    Raises:
        BadData: it is none, or its values are in another file.
    """
    import onnx

    proto = onnx.TensorProto()
    data = content(path)
    with readable(path):
        try:
            proto.ParseFromString(data)
        except Exception as error:  # of protobuf, which has no types
            raise ValueError("it is no TensorProto of ONNX") from error
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError("its values are in another file")
        if min(proto.dims, default=0) < 0 or proto.data_type == onnx.TensorProto.UNDEFINED:
            raise ValueError("it is no TensorProto of ONNX, or has a negative size")
        return proto.name, np.asarray(onnx.numpy_helper.to_array(proto))
