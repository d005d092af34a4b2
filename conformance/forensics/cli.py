"""`prefixproof-forensics`: read logs or captures; say whether a prefix is lost, where, since when, by which part."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import orjson

from conformance import __version__
from conformance.forensics.columns import FIELDS
from conformance.forensics.order import in_order
from conformance.forensics.readers import LogFile, Reading
from conformance.forensics.report import Report, build
from conformance.forensics.request import Request, Skipped, Unreadable
from conformance.forensics.streams import Log
from conformance.forensics.terminal import as_text
from conformance.forensics.values import moment, utc_offset

EPILOG = """\
exit codes: 0 no fault found, 1 a fault found (with --after or --split: in the later period), 2 wrong usage, or a file
that cannot be read or holds no usable row

A file is a capture (see docs/forensics.md), a CSV table or JSON lines, plain or .gz. Columns of new-api's logs,
LiteLLM's SpendLogs and common names are recognised; --columns names others."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code. `arguments` default to the command line."""
    parser = _parser()
    try:
        typed = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        report = _run(typed)
    except (Unreadable, ValueError) as error:
        sys.stderr.write(f"prefixproof-forensics: {error}\n")
        return 2
    if typed.json:
        sys.stdout.write(as_json(report))
    else:
        sys.stdout.write(as_text(report, shutil.get_terminal_size().columns))
    return report.code


def as_json(report: Report) -> str:
    """The report as one JSON object, schema `prefixproof-forensics/1`."""
    return orjson.dumps(asdict(report), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n"


def analyse(
    files: Sequence[Path], reading: Reading, *, after: Sequence[Path] = (), split: float | None = None
) -> Report:
    """The report over `files`, in whatever order they hold their requests. Raises Unreadable.

    `after` are the files of a later period, or `split` (seconds since 1970 UTC) the moment it begins.
    """
    if not after:
        read, logs, was_sorted = _read(files, reading, split)
        return build(
            read, logs[0], reading.offset_s, was_sorted=was_sorted, after=None if split is None else ([], logs[1])
        )
    read, logs, was_sorted = _read(files, reading, None)
    read_later, logs_later, later_sorted = _read(after, reading, None)
    sorted_any = was_sorted or later_sorted
    return build(read, logs[0], reading.offset_s, was_sorted=sorted_any, after=(read_later, logs_later[0]))


def _read(paths: Sequence[Path], reading: Reading, split: float | None) -> tuple[list[LogFile], tuple[Log, Log], bool]:
    opened: list[LogFile] = []
    logs: list[Log] = []

    def requests() -> Iterator[Request]:
        opened[:] = [LogFile(path, reading) for path in paths]
        return chain.from_iterable(opened)

    def use(ordered: Iterator[Request]) -> None:
        before, after = Log(reading.offset_s), Log(reading.offset_s)
        logs[:] = [before, after]
        for request in ordered:
            (after if split is not None and request.time >= split else before).add(request)

    was_sorted = in_order(requests, use)
    before, after = logs
    if not before.total.requests + after.total.requests:
        raise Unreadable(_unusable(opened))
    if split is not None and not (before.total.requests and after.total.requests):
        raise Unreadable("--split: all usable requests lie on one side of that time; give one within the log")
    return opened, (before, after), was_sorted


def _unusable(files: Sequence[LogFile]) -> str:
    reasons = "; ".join(f"{file.path.name}: {_most(file)}" for file in files)
    return f"no usable row ({reasons}); see --columns and docs/forensics.md"


def _most(file: LogFile) -> str:
    skipped = file.skips.items()
    return f"{skipped[0][1]:,} x {skipped[0][0]}" if skipped else "no rows"


def _run(typed: argparse.Namespace) -> Report:
    reading = Reading(
        _columns(typed.columns), typed.prompt_excludes_cached, utc_offset(typed.utc_offset), _label(typed.hide_users)
    )
    if typed.split is not None and typed.after:
        raise ValueError("--split and --after are two ways to say the same; give one")
    split = None
    if typed.split is not None:
        try:
            split = moment(typed.split, reading.offset_s)[0]
        except Skipped as error:
            raise ValueError(f"--split {typed.split}: {error}; write 2026-08-18T00:00:00+00:00") from None
    return analyse(typed.files, reading, after=typed.after, split=split)


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    columns = {}
    for pair in text.split(","):
        name, equals, path = (piece.strip() for piece in pair.partition("="))
        if not equals or name not in FIELDS or not path:
            raise ValueError(f"--columns {pair}: write FIELD=COLUMN, with a field of {', '.join(FIELDS)}")
        columns[name] = path
    return columns


def _label(hide: bool) -> Callable[[str], str]:
    if not hide:
        return str
    return lambda user: "user-" + hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:8]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefixproof-forensics",
        description=__doc__.partition(": ")[2] if __doc__ else None,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a log or a capture")
    parser.add_argument("--after", metavar="FILE", nargs="+", type=Path, default=[], help="the same of a later period")
    parser.add_argument("--split", metavar="TIME", help="compare what is before and after this time")
    parser.add_argument("--columns", metavar="FIELD=COLUMN,...", help=f"whose columns are what: {', '.join(FIELDS)}")
    parser.add_argument("--utc-offset", metavar="OFFSET", default="UTC", help="zone of times without one, and of days")
    parser.add_argument(
        "--prompt-excludes-cached", action="store_true", help="prompt counts leave cached tokens out (Anthropic's way)"
    )
    parser.add_argument("--hide-users", action="store_true", help="show users by a hash of their name")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--version", action="version", version=f"prefixproof-forensics {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
