"""The systemd units, the container image and the compose file of `deploy/`, as far as this machine can check them."""

import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import COMMAND, eventually, serving
from tests.servers.programs import missing

from dealer_agent.catalogue_loading.child_processes import MOST_MEMORY_MIB

pytestmark = pytest.mark.outside_protocol("deployment")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "container" / "compose.yml").read_text("utf-8"))
WORKER_MIB = 300
MOST_EXPOSED = 15
"""The highest exposure, from 0 to 100, that `systemd-analyze security` may find. It finds 14."""


def systemd_analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze", "systemd")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_has_no_mistake(unit: Path, tmp_path: Path) -> None:
    """The command is that of this environment, because systemd looks for it."""
    named = tmp_path / unit.name.replace("@", "@my-store")
    text = unit.read_text("utf-8")
    assert "/opt/dealer-agent/bin/dealer-agent serve" in text
    named.write_text(text.replace("/opt/dealer-agent/bin/dealer-agent", COMMAND), "utf-8")
    done = systemd_analyze("verify", "--man=no", named)
    about_it = [line for line in done.stderr.splitlines() if unit.stem.rstrip("@") in line]
    assert about_it == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened(unit: Path) -> None:
    done = systemd_analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("GAP: this systemd-analyze cannot look at a file (it needs version 250)")
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


def settings_of(unit: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in unit.read_text("utf-8").splitlines() if re.match(r"\w+=", line))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_limits_the_service_and_leaves_room_for_an_import(unit: Path) -> None:
    settings = settings_of(unit)
    memory = re.fullmatch(r"(\d+)G", settings["MemoryMax"])
    assert memory is not None
    assert int(memory[1]) << 10 > MOST_MEMORY_MIB + 2 * WORKER_MIB
    assert settings["OOMPolicy"] == "continue"
    agent = COMPOSE["services"]["agent"]
    assert settings["MemoryMax"].lower() == agent["mem_limit"]
    assert settings["TasksMax"] == str(agent["pids_limit"])
    assert settings["CPUQuota"] == f"{agent['cpus'] * 100:.0f}%"


def test_every_service_of_the_compose_file_has_limits() -> None:
    for service in COMPOSE["services"].values():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service)


def test_the_how_to_names_the_limits_of_the_units() -> None:
    text = (ROOT / "docs" / "how-to" / "production.md").read_text("utf-8")
    settings = settings_of(UNITS[0])
    for name in ("MemoryMax", "TasksMax", "CPUQuota", "OOMPolicy"):
        assert f"`{name}={settings[name]}`" in text


def test_the_image_does_not_run_as_root_and_installs_only_pinned_packages() -> None:
    final = CONTAINERFILE.rpartition("\nFROM ")[2]
    user = re.search(r"^USER (\d+):(\d+)$", final, re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0
    installs = re.findall(r"pip install (.*?)(?:&&|$)", CONTAINERFILE.replace("\\\n", " "), re.MULTILINE)
    assert [words for words in installs if "--require-hashes" not in words] == ["--no-deps dist/*.whl "]
    copied = [
        path for line in re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE) for path in line.split()
    ]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    allowed = (DEPLOY / "container" / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    assert {f"!{path}" for path in copied} <= set(allowed)
    for lock in re.findall(r"requirements/(\w+)\.txt", CONTAINERFILE):
        assert (ROOT / "requirements" / f"{lock}.txt").exists()


def test_the_health_check_of_the_image_finds_a_running_service_and_no_other(tmp_path: Path) -> None:
    found = re.search(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    assert found is not None
    python, *arguments = json.loads(found[1])
    assert python == "python"
    run = partial(subprocess.run, capture_output=True)
    with serving(stocked_dealer(tmp_path / "store")) as running:
        for port, code in ((running.port, 0), (9, 1)):
            check = [sys.executable, *(each.replace(":8080/", f":{port}/") for each in arguments)]
            assert check[1:] != arguments
            # The health check waits for 4 s, and a loaded machine may take longer.
            eventually("the exit code", lambda: run(check).returncode == code)  # noqa: B023


def test_the_services_of_the_compose_file_have_few_rights() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"agent", "database", "caddy"}
    for name in ("agent", "caddy"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    for service in services.values():
        assert "no-new-privileges:true" in service["security_opt"]
        assert not service.get("privileged")
    # Pages and skills are reached through Caddy only. Vendors upload feeds by SFTP.
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {
        "agent": ["2222:2222"],
        "caddy": ["80:80", "443:443", "443:443/udp"],
    }
    assert COMPOSE["networks"]["database"]["internal"] is True
    user = re.search(r"^USER (\S+)$", CONTAINERFILE, re.MULTILINE)
    assert user is not None
    assert services["agent"]["user"] == user[1]


def test_the_how_to_trusts_the_address_of_the_proxy_in_the_compose_file() -> None:
    address = COMPOSE["services"]["caddy"]["networks"]["proxy"]["ipv4_address"]
    assert f'trusted_proxies = ["{address}"]' in (ROOT / "docs" / "how-to" / "production.md").read_text("utf-8")


def test_the_files_that_the_compose_file_names_exist() -> None:
    folder = DEPLOY / "container"
    services = COMPOSE["services"].values()
    sources = [volume.split(":")[0] for service in services for volume in service["volumes"]]
    assert [source for source in sources if source.startswith(".") and not (folder / source).exists()] == []
    assert set(COMPOSE["volumes"]) == {source for source in sources if not source.startswith(".")}
    build = COMPOSE["services"]["agent"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).samefile(folder / "Containerfile")
