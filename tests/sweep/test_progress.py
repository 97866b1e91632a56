import logging
from pathlib import Path

import pytest

from sweep.progress import Progress, log_no_more, log_to


def test_a_line_now_and_then_without_a_terminal(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("sweep.progress.time.monotonic", lambda: now)
    progress = Progress(1000, known=200)
    with caplog.at_level(logging.INFO, "sweep"):
        for now in (10.0, 29.0, 31.0, 40.0, 62.0):  # noqa: B007 - the clock reads it
            progress.add(100, 1)
    assert caplog.messages == [
        "500 of 1000 points (50 %), 9.68 points/s, 52 s left, 3 failed",
        "700 of 1000 points (70 %), 8.06 points/s, 37 s left, 5 failed",
    ]


def test_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = Progress(10)
    progress.add(10, 2)
    progress.close()
    text = capsys.readouterr().err
    assert "10/10" in text
    assert "point/s" in text
    assert "2 failed" in text


def test_the_log_has_everything_and_the_screen_what_matters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = log_to(None) + log_to(tmp_path / "run.log")
    logging.getLogger("sweep.x").debug("detail")
    logging.getLogger("sweep.x").info("news")
    log_no_more(handlers)
    assert capsys.readouterr().err == "news\n"
    text = (tmp_path / "run.log").read_text()
    assert "DEBUG sweep.x: detail" in text
    assert "INFO sweep.x: news" in text
    assert logging.getLogger("sweep").propagate
