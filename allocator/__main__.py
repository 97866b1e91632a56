"""One machine at a time: `python -m allocator explain|capture|predict|snapshot|validate`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from allocator.errors import ConfigError, PredictError

SHOWN = ("slabinfo", "sysfs", "activity", "locks")
"""What `snapshot` shows."""
SCRIPT_ONLY = ("kernel", "cpus", "nodes", "machine", "max_order", "min_order", "min_objects")
"""Its options that a record answers itself."""

OK, DIFFERS, USAGE = 0, 1, 2
"""Exit statuses: fine; something differs; the input cannot be used."""

TYPED_AS = {
    "topology.arch": "--arch",
    "topology.page_size": "--page-size",
    "topology.cpus_possible": "--possible",
    "caches.cache.align": "--align",
    "caches.cache.flags": "--flags",
    "slab.debug": "--debug",
    "slab.max_order": "--max-order",
    "slab.min_order": "--min-order",
    "slab.min_objects": "--min-objects",
}
"""Options by the key that an error names."""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> "None":  # type: ignore[override]
        """Print what is wrong and leave with status 2."""
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (ConfigError, PredictError, LookupError) as error:
        message = str(error.args[0]) if isinstance(error, KeyError) else str(error)
        if isinstance(error, ConfigError):
            message = _as_typed(error, options)
        print(f"allocator: {message}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _as_typed(error: ConfigError, options: argparse.Namespace) -> str:
    """Return an error's line with the option that was typed for its key."""
    option = TYPED_AS.get(error.key, "")
    if getattr(options, option.removeprefix("--").replace("-", "_"), None) is None:
        return str(error)
    return str(ConfigError(option, error.found, error.expected.removeprefix("null or ")))


def _parser() -> _Parser:
    parser = _Parser(prog="python -m allocator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    explain = commands.add_parser("explain", help="order and limits of one cache, step by step")
    explain.add_argument("--kernel", default="v6_1", help="kernel preset (default v6_1)")
    explain.add_argument("--size", type=_bytes, required=True, help="object size: 512, or 4KiB")
    explain.add_argument("--cpus", type=int, default=1, help="present CPUs (default 1)")
    explain.add_argument("--possible", type=int, help="possible CPUs (default: the present)")
    explain.add_argument("--arch", default="x86_64", help="x86_64, arm64 or ppc64")
    explain.add_argument("--page-size", type=_bytes, help="bytes (default: the usual of the arch)")
    explain.add_argument("--align", type=int, default=0, help="alignment asked for, bytes")
    explain.add_argument("--flags", default="", help="HWCACHE_ALIGN,CTOR,TYPESAFE_BY_RCU,...")
    explain.add_argument("--max-order", type=int, help="slub_max_order")
    explain.add_argument("--min-order", type=int, help="slub_min_order")
    explain.add_argument("--min-objects", type=int, help="slub_min_objects")
    explain.add_argument("--debug", help="slub_debug, e.g. FZPU")
    explain.add_argument("--text", action="store_true", help="lines of text instead of JSON")
    explain.set_defaults(run=_explain)

    capture = commands.add_parser("capture", help="print a record of the running Linux machine")
    capture.add_argument("--from", dest="root", help="read saved proc/ and sys/ below this folder")
    capture.add_argument("--name", default=None, help="name of the record")
    capture.add_argument("--release", help="kernel release (6.1.0), if the copy does not tell it")
    capture.set_defaults(run=_capture)

    predict = commands.add_parser(
        "predict",
        help="what the kernels of records would show",
        description="Print what the kernel of each record would show, one JSON line a record; the "
        "measured part is not looked at. Page scripts: which pages come from a node other than the "
        "quiet one is not to be known, as no record says where its free blocks are.",
    )
    predict.add_argument("records", nargs="+", metavar="RECORD")
    predict.set_defaults(run=_predict)

    snapshot = commands.add_parser("snapshot", help="what the kernel shows after a script")
    snapshot.add_argument("source", metavar="FILE", help="replay record, or op script")
    snapshot.add_argument("--at", metavar="LABEL", help="at this snap (default: at the end)")
    snapshot.add_argument(
        "--show",
        default=",".join(SHOWN),
        help="which of slabinfo,sysfs,activity,locks (default: all)",
    )
    snapshot.add_argument("--json", action="store_true", help="JSON instead of text")
    snapshot.add_argument("--kernel", help="of a script: kernel preset (default v6_1)")
    snapshot.add_argument("--cpus", type=int, help="of a script: CPUs (default 4)")
    snapshot.add_argument("--nodes", type=int, help="of a script: nodes (default 1)")
    snapshot.add_argument("--machine", metavar="RECORD", help="of a script: CPUs and nodes there")
    snapshot.add_argument("--max-order", type=int, help="of a script: slub_max_order")
    snapshot.add_argument("--min-order", type=int, help="of a script: slub_min_order")
    snapshot.add_argument("--min-objects", type=int, help="of a script: slub_min_objects")
    snapshot.set_defaults(run=_snapshot)

    validate = commands.add_parser("validate", help="predict records and compare")
    validate.add_argument("records", nargs="+", metavar="RECORD")
    validate.set_defaults(run=_validate)
    return parser


def _bytes(text: str) -> int:
    """Read a size: bytes, or with a unit of 1024 as the kernel's memparse() takes it."""
    number = text.removesuffix("iB").removesuffix("B")
    unit = {"k": 10, "K": 10, "m": 20, "M": 20, "g": 30, "G": 30}.get(number[-1:], 0)
    digits = number[:-1] if unit else number
    if not digits.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected bytes: 512, 4k or 4KiB")
    return int(digits) << unit


# The imports below stand in functions so that each command loads only its own rooms.


def _explain(options: argparse.Namespace) -> int:
    from allocator.slabs.explain import explain, lines

    report = explain(
        kernel=options.kernel,
        size=options.size,
        cpus=options.cpus,
        possible=options.possible,
        arch=options.arch,
        page_size=options.page_size,
        align=options.align,
        flags=frozenset(filter(None, options.flags.replace("+", ",").split(","))),
        max_order=options.max_order,
        min_order=options.min_order,
        min_objects=options.min_objects,
        debug=options.debug,
    )
    print("\n".join(lines(report)) if options.text else json.dumps(report, indent=2))
    return OK


def _capture(options: argparse.Namespace) -> int:
    from allocator.records.capture import capture

    record, notes = capture(
        "/" if options.root is None else options.root, options.name, options.release
    )
    for note in notes:
        print(f"capture: {note}", file=sys.stderr)
    print(json.dumps(record, indent=1))
    return OK


def _predict(options: argparse.Namespace) -> int:
    from allocator.records.predict import predict_files

    status = OK
    for answer in predict_files(options.records):
        print(json.dumps(answer), flush=True)
        if "error" in answer:
            print(f"allocator: {answer['error']}", file=sys.stderr)
            status = USAGE
    return status


def _snapshot(options: argparse.Namespace) -> int:
    from allocator.records.snapshot_file import snapshot_file

    parts = options.show.split(",")
    for part in parts:
        if part not in SHOWN:
            raise ConfigError("--show", part, f"some of {','.join(SHOWN)}")
    given = {name: value for name in SCRIPT_ONLY if (value := getattr(options, name)) is not None}
    shown = snapshot_file(options.source, at=options.at, **given)
    text = {
        "slabinfo": shown.slabinfo,
        "sysfs": shown.sysfs_lines(),
        "activity": shown.activity,
        "locks": shown.locks,
    }
    if options.json:
        print(json.dumps({part: getattr(shown, part) for part in parts}, indent=1))
    else:
        print("\n\n".join(text[part] for part in parts))
    return OK


def _validate(options: argparse.Namespace) -> int:
    from allocator.records.report import validate_files

    status = OK
    for line, found in validate_files(options.records):
        if found is None:
            print(f"allocator: {line}", file=sys.stderr)
            status = USAGE
        else:
            print(line, flush=True)
            status = status if found else max(status, DIFFERS)
    return status


if __name__ == "__main__":
    sys.exit(main())
