"""From a folder to entries: which files are read, and how their bytes become text.

One bad file never stops the others: what cannot be read is listed in the load report.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lookup_tool.documents.entries import Problems, parse_entry
from lookup_tool.errors import KnowledgeNotFoundError
from lookup_tool.schema import EVERYBODY, Access, Entry, LoadProblem, PreparedEntry

SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".mkd", ".mkdn", ".mdown", ".mdwn", ".mdtxt"})
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
MAX_FILE_BYTES = 64 * 1024 * 1024
_GUESSED_FROM = 64
"""Bytes that show an encoding of two or four bytes a character; a multiple of four."""
_FEWEST_NULS = 2


Known = Callable[[str, str], PreparedEntry | None]
"""Returns the prepared entry of a file, by source and hash, where there is one already."""


@dataclass(frozen=True)
class LoadedFile:
    """One file, read."""

    source: str
    """Identity of its entry."""

    entry: Entry | PreparedEntry
    """What it says; prepared already where that was known."""

    sha256: str
    """Hash of its bytes."""

    problems: tuple[LoadProblem, ...]
    """What is wrong with it."""


def check_folder(root: Path) -> None:
    """Make sure that there is a folder of documents.

    Raises:
        KnowledgeNotFoundError: `root` is no folder.
    """
    # Methods of `Path` raise where a share does not answer.
    if not os.path.isdir(root):  # noqa: PTH112
        what = "is a file" if os.path.isfile(root) else "no such folder"  # noqa: PTH113
        raise KnowledgeNotFoundError(root, f"{what}; give the folder of markdown files")


def load_folder(
    root: Path,
    problems: Problems,
    progress: Callable[[int, int], None] | None = None,
    known: Known | None = None,
    default: Access = EVERYBODY,
) -> list[LoadedFile]:
    """Read every markdown file under a folder.

    Hidden files and folders, `node_modules` and links that lead out of the folder are left out.

    Args:
        root: The folder.
        problems: Where to note what is wrong with a file.
        progress: Called with (files read, files in all).
        known: Entries that need not be parsed again; by default every file is parsed.
        default: Who may read an entry that does not say it.

    Returns:
        Files in the order of their paths.

    Raises:
        KnowledgeNotFoundError: `root` is no folder.
    """
    check_folder(root)
    paths = sorted(_markdown_files(root, problems), key=lambda path: path.as_posix())
    files: list[LoadedFile] = []
    for number, path in enumerate(paths, start=1):
        source = _source_of(path.relative_to(root))
        file = load_file(path, source, problems, known, default)
        if file is not None:
            files.append(file)
        if progress is not None:
            progress(number, len(paths))
    return files


def load_file(
    path: Path,
    source: str,
    problems: Problems,
    known: Known | None = None,
    default: Access = EVERYBODY,
) -> LoadedFile | None:
    """Read one markdown file; None when it cannot be read at all."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            problems.error(source, None, f"{size:,} bytes are too many", "split it (64 MiB)")
            return None
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problems.error(source, None, f"cannot be read ({reason})", "check the file's permissions")
        return None
    sha256 = hashlib.sha256(raw).hexdigest()
    entry = known(source, sha256) if known is not None else None
    if entry is None:
        own = Problems()
        entry = parse_entry(_decode(raw, source, own), source, own, default)
        faults = tuple(own.found)
    else:
        faults = entry.problems
    problems.found.extend(faults)
    return LoadedFile(source, entry, sha256, faults)


def _source_of(path: Path) -> str:
    """Write a path as text that no other path is written as.

    One that is not UTF-8 is percent-encoded, and begins with `./` as no other one does.
    """
    name = os.fsencode(path.as_posix())
    try:
        return name.decode()
    except UnicodeDecodeError:
        return f"./{quote(name)}"


def _markdown_files(root: Path, problems: Problems) -> Iterator[Path]:
    inside = root.resolve()

    def unlisted(error: OSError) -> None:
        source = _source_of(Path(error.filename).relative_to(root))
        reason = error.strerror or type(error).__name__
        problems.error(source, None, f"cannot be listed ({reason})", "check its permissions")

    for folder, folders, files in os.walk(root, onerror=unlisted):
        is_inside = Path(folder).resolve().is_relative_to(inside)
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS
        ]
        for name in files:
            path = Path(folder, name)
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES:
                continue
            # `Path.is_file` raises in a folder that can be listed and not entered.
            is_file = os.path.isfile(path)  # noqa: PTH113
            is_plain = is_inside and is_file and not path.is_symlink()
            if not is_plain and (fault := _fault(path, inside)):
                source = _source_of(path.relative_to(root))
                problems.error(source, None, fault, "copy the file instead")
                continue
            yield path


def _fault(path: Path, inside: Path) -> str | None:
    """Say why a path is not to be read; None for a plain file, or a link to one, in the folder."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a loop is a RuntimeError until Python 3.13
        return "links to nothing"
    if not target.is_relative_to(inside):
        return "links out of the folder"
    return None if target.is_file() else "is no plain file"


def _decode(raw: bytes, source: str, problems: Problems) -> str:
    """Decode bytes without ever failing; warn when the encoding had to be guessed."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, "replace")
    try:
        if b"\x00" not in raw:
            return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    encoding = _guess(raw)
    problems.warn(source, None, f"not UTF-8, read as {encoding}", "save the file as UTF-8")
    return raw.decode(encoding, "replace")


_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


def _guess(raw: bytes) -> str:
    """Guess the encoding of bytes that are not plain UTF-8."""
    start = raw[:_GUESSED_FROM]
    even, odd = start[::2].count(0), start[1::2].count(0)
    if even + odd >= _FEWEST_NULS:
        for encoding in ("utf-32-le", "utf-32-be"):
            if not {"\x00", "\ufffd"} & set(start.decode(encoding, "replace")):
                return encoding
        if not even or not odd:
            return "utf-16-be" if even else "utf-16-le"
    for encoding in ("utf-8", "cp1252"):
        try:
            raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"  # decodes any byte
