"""One machine at a time: `python -m allocator explain|capture|predict|validate`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from allocator.errors import ConfigError, PredictError

OK, DIFFERS, USAGE = 0, 1, 2
"""Exit statuses: fine; something differs or failed; the request cannot be served."""


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
        print(f"allocator: {message}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _parser() -> _Parser:
    parser = _Parser(prog="python -m allocator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    explain = commands.add_parser("explain", help="order and limits of one cache, step by step")
    explain.add_argument("--kernel", default="v6_1", help="kernel preset (default v6_1)")
    explain.add_argument("--size", type=int, required=True, help="object size, bytes")
    explain.add_argument("--cpus", type=int, default=1, help="present CPUs (default 1)")
    explain.add_argument("--possible", type=int, help="possible CPUs (default: the present)")
    explain.add_argument("--arch", default="x86_64", help="x86_64, arm64 or ppc64")
    explain.add_argument("--page-size", type=int, help="bytes (default: the usual of the arch)")
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
    capture.set_defaults(run=_capture)

    predict = commands.add_parser("predict", help="what the kernels of records would show")
    predict.add_argument("records", nargs="+", metavar="RECORD")
    predict.set_defaults(run=_predict)

    validate = commands.add_parser("validate", help="predict records and compare")
    validate.add_argument("records", nargs="+", metavar="RECORD")
    validate.set_defaults(run=_validate)
    return parser


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

    record, notes = capture(root=options.root or "/", name=options.name)
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
            status = DIFFERS
    return status


def _validate(options: argparse.Namespace) -> int:
    from allocator.records.report import validate_files

    status = OK
    for line, fine in validate_files(options.records):
        print(line, flush=True)
        if not fine:
            status = DIFFERS
    return status


if __name__ == "__main__":
    sys.exit(main())
