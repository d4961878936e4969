"""Pictures of samples whose answers changed, for the report."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xbench.converters.printable import visible
from xbench.reports.quality.evaluation import in_words, named
from xbench.store.experiments import Changed
from xbench.store.record import Record

LONGEST = 1 << 16  # characters of a picture: a store may come from others
KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}  # by the first bytes


@dataclass(frozen=True)
class Pictures:
    """Those of one record: a title, and of each sample the address of its picture and what changed."""

    title: str
    samples: Sequence[tuple[str, str]]


def pictures(records: Iterable[Record]) -> list[Pictures]:
    """Of the records that have some."""
    made = [Pictures(_title(record), [*_samples(record["evaluation"]["worst"])]) for record in records]
    return [each for each in made if each.samples]


def _title(record: Record) -> str:
    return visible(f"{record['case']['model']} on {named(record)}: answers that changed")


def _samples(changed: Sequence[Changed]) -> Iterable[tuple[str, str]]:
    for each in changed:
        address = _address(each.get("image"))
        if address:
            yield address, visible(in_words(each) or each["sample"])


def _address(image: object) -> str | None:
    """A picture as an address that holds it; None if it is no PNG or JPEG."""
    if not isinstance(image, str) or len(image) > LONGEST:
        return None
    try:
        data = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = next((kind for start, kind in KINDS.items() if data.startswith(start)), None)
    return f"data:{kind};base64,{base64.b64encode(data).decode()}" if kind else None
