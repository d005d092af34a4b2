"""The runner of `make targets`, with an installation that needs no registry."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import fake_gateway
import gateway_install
import gateway_process
import pytest
import run_targets
from expected_verdicts import Expected, differences
from gateway_install import cache_folder, install, variable_of
from gateway_process import NOWHERE, clean_environment, free_port, running
from gateway_spec import Gateway, Install, Place, TargetsError

Said = list[str]


def test_installations_lie_outside_the_checkout(tmp_path: Path) -> None:
    assert cache_folder({}) == Path.home() / ".cache" / "prefixproof" / "targets"
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/prefixproof/targets")
    assert cache_folder({"XDG_CACHE_HOME": "/c", "PREFIXPROOF_TARGETS_CACHE": str(tmp_path)}) == tmp_path
    assert variable_of("litellm-1.108.7") == "PREFIXPROOF_TARGET_LITELLM_1_108_7"


def test_one_is_installed_once_and_again_when_it_was_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], folder: Path) -> None:
        ran.append(command[1:])
        if "venv" in command:
            fake_gateway.installation(folder)

    monkeypatch.setattr(gateway_install, "_run", run)
    environ, said = {"PREFIXPROOF_TARGETS_CACHE": str(tmp_path)}, Said()
    for _ in range(2):
        installed = install(fake_gateway.gateway(), said.append, environ)
    folder = tmp_path / "fake-1.0"
    assert installed.version == "1.0"
    assert installed.executable("fakegw") == str(folder / "bin" / "fakegw")
    assert ran == [["-m", "venv", str(folder)], ["-m", "pip", "install", "--quiet", "fake-gw[x]==1.0"]]
    assert said == [f"installing fake-gw[x]==1.0 into {folder} (once) ...", f"is installed in {folder}"]
    (folder / gateway_install.STAMP).unlink()
    install(fake_gateway.gateway(), said.append, environ)
    assert len(ran) == 4
    with pytest.raises(TargetsError, match="has no executable 'other'"):
        installed.executable("other")


def test_npm_packages_go_into_a_prefix_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], folder: Path) -> None:
        assert command[1:] == ["install", "--no-audit", "--no-fund", "--prefix", str(folder), "@scope/x@1.0"]
        for name, version in (("@scope/x", "1.0"), ("other", "3.1")):
            (folder / "node_modules" / name / "node_modules" / "inner").mkdir(parents=True)
            manifest = json.dumps({"version": version})
            (folder / "node_modules" / name / "package.json").write_text(manifest, encoding="utf-8")

    monkeypatch.setattr(gateway_install, "_run", run)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    gateway = fake_gateway.gateway().model_copy(update={"install": Install(npm="@scope/x@1.0")})
    installed = install(gateway, Said().append, {"PREFIXPROOF_TARGETS_CACHE": str(tmp_path)})
    assert (installed.version, installed.packages) == ("1.0", "@scope/x@1.0\nother@3.1\n")
    assert installed.executables == tmp_path / "fake-1.0" / "node_modules" / ".bin"


def test_an_installation_of_the_users_own_must_be_of_the_same_version(tmp_path: Path) -> None:
    folder = fake_gateway.installation(tmp_path / "own", version="0.9")
    with pytest.raises(TargetsError, match=r"holds version 0\.9, not 1\.0"):
        install(fake_gateway.gateway(), Said().append, {"PREFIXPROOF_TARGET_FAKE_1_0": str(folder)})
    with pytest.raises(TargetsError, match="is no virtual environment"):
        install(fake_gateway.gateway(), Said().append, {"PREFIXPROOF_TARGET_FAKE_1_0": str(tmp_path)})


def test_a_failed_installation_shows_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(TargetsError, match=r"(?s)ended with 3:.*no such release"):
        gateway_install._run([sys.executable, "-c", "print('no such release'); raise SystemExit(3)"], tmp_path)


def test_a_gateway_sees_nothing_of_the_user_and_no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    environment = clean_environment(Path("/h"), {"OWN": "1"})
    assert set(environment) == {
        *("PATH", "HOME", "TMPDIR", "LANG", "OWN"),
        *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"),
    }
    assert environment["HOME"] == "/h"
    assert environment["https_proxy"] == NOWHERE


def _installed(tmp_path: Path, script: str) -> tuple[Gateway, gateway_install.Installed, Place]:
    folder = fake_gateway.installation(tmp_path / "venv", script)
    gateway = fake_gateway.gateway()
    installed = install(gateway, Said().append, {"PREFIXPROOF_TARGET_FAKE_1_0": str(folder)})
    home = tmp_path / "home"
    home.mkdir()
    return gateway, installed, Place(home, free_port(), "http://127.0.0.1:9")


def test_a_gateway_that_ends_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    gateway, installed, place = _installed(tmp_path, "print('bad port in config'); raise SystemExit(4)")
    with (
        pytest.raises(TargetsError, match=r"(?s)ended with 4; its log ends:\nbad port"),
        running(gateway, installed, place, tmp_path / "log"),
    ):
        pytest.fail("it does not run")


def test_a_gateway_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_process, "STARTING_S", 0.5)
    gateway, installed, place = _installed(tmp_path, "import time; time.sleep(600)")
    with (
        pytest.raises(TargetsError, match=r"does not answer http://127\.0\.0\.1:\d+/health"),
        running(gateway, installed, place, tmp_path / "log"),
    ):
        pytest.fail("it does not answer")


def test_what_a_gateway_starts_ends_with_it(tmp_path: Path) -> None:
    script = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Healthy).serve_forever()
"""
    gateway, installed, place = _installed(tmp_path, script)
    with running(gateway, installed, place, tmp_path / "log") as url:
        assert url == place.url
        child = int((tmp_path / "child").read_text(encoding="utf-8"))
        assert _alive(child)
    until = time.monotonic() + 10  # the system needs a moment to take an orphan away
    while _alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(child)


def test_a_gateway_is_judged_compared_and_its_reports_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fake_gateway.installation(tmp_path / "venv")
    monkeypatch.setenv("PREFIXPROOF_TARGET_FAKE_1_0", str(folder))
    fake = fake_gateway.gateway("--fault", "own-system-note")
    fail = Expected.model_validate({"verdict": "fail", "code": "text-added", "because": "a note", "seen": "bytes"})
    right = Expected.model_validate("pass")
    tables = {"fake-1.0": {("CON-01", "messages"): fail, ("PFX-01", "messages"): right}}
    monkeypatch.setattr(run_targets, "load", lambda _name: fake)
    monkeypatch.setattr(run_targets, "load_expected", lambda: tables)
    reports = tmp_path / "reports"
    assert run_targets.main(["fake-1.0", "--budget", "quick", "--reports", str(reports)]) == 0
    said = capsys.readouterr().out
    assert "fake-1.0: not in expected.toml, look at it: CON-01 chat failed" in said
    assert "fake-1.0: 2 of 2 listed cells as expected" in said

    report = json.loads((reports / "fake-1.0.json").read_text(encoding="utf-8"))
    assert report["run"]["vantages"] == ["client", "upstream"]
    kept = {path.name for path in (reports / "fake-1.0").iterdir()}
    assert {"report.html", "junit.xml", "details", "gateway.log", "engine.log", "suite.txt", "packages.txt"} <= kept
    assert run_targets.KEY not in "".join(
        path.read_text(encoding="utf-8") for path in reports.rglob("*") if path.is_file()
    )

    wrong = {("CON-01", "messages"): right, ("PFX-01", "messages"): right}
    [difference] = differences(wrong, report)
    assert str(difference).startswith("CON-01 messages: expected pass, observed fail")


def test_a_target_that_cannot_be_started_fails_the_run_and_not_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFIXPROOF_TARGET_FAKE_1_0", str(tmp_path))
    monkeypatch.setattr(run_targets, "load", lambda _name: fake_gateway.gateway())
    document = tmp_path / "table.md"
    document.write_text("as it was", encoding="utf-8")
    assert run_targets.main(["fake-1.0", "--reports", str(tmp_path / "r"), "--write", str(document)]) == 2
    assert "not judged: fake-1.0" in capsys.readouterr().out
    assert document.read_text(encoding="utf-8") == "as it was"


def test_an_unknown_target_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_targets.main(["litellm"]) == 2
    assert "choose from ant2oai-0.1.6" in capsys.readouterr().err


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
