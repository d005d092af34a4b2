"""Whether the offload connector that runs is the one that was released: files against the wheel's own record."""

from __future__ import annotations

import base64
import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

from engine.doctor.launch import LaunchError

WATCHED = (
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py",
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading/worker.py",
    "vllm/distributed/kv_transfer/kv_connector/v1/offloading_connector.py",
    "vllm/v1/core/sched/scheduler.py",
    "vllm/v1/core/kv_cache_manager.py",
    "vllm/v1/core/kv_cache_coordinator.py",
    "vllm/v1/core/single_type_kv_cache_manager.py",
    "vllm/v1/kv_offload/cpu/manager.py",
)
"""What decides about stores and loads. A version has some of them elsewhere or not at all."""


@dataclass(frozen=True)
class Installation:
    """One installed vLLM: its version, and which watched files are not as they were released."""

    version: str
    checked: int
    changed: tuple[str, ...]


def inspect_installation(folder: Path) -> Installation:
    """Look at an environment, its site-packages, or a folder that holds the `vllm` package. Raises `LaunchError`."""
    site = _site(folder)
    records = [found for found in site.glob("vllm*.dist-info/RECORD") if found.stat().st_size]
    if not records:
        raise LaunchError(
            f"{site}: vLLM's own record (vllm-*.dist-info/RECORD) is missing: its files cannot be compared"
        )
    hashes = _recorded(records[0])
    version = records[0].parent.name.removesuffix(".dist-info").rpartition("-")[2]
    present = [name for name in WATCHED if name in hashes and (site / name).is_file()]
    changed = tuple(name for name in present if _digest(site / name) != hashes[name])
    return Installation(version, len(present), changed)


def _site(folder: Path) -> Path:
    for candidate in (folder, *folder.glob("lib/python3*/site-packages"), folder.parent):
        if (candidate / "vllm" / "__init__.py").is_file():
            return candidate
    raise LaunchError(f"{folder} holds no vLLM: name an environment, or the folder its packages lie in")


def _recorded(record: Path) -> dict[str, str]:
    with record.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.reader(lines) if len(row) >= 2]
    return {row[0]: row[1].partition("=")[2] for row in rows if row[1].startswith("sha256=")}


def _digest(file: Path) -> str:
    """As a wheel's record writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
