# SPDX-License-Identifier: BSD-3-Clause
"""Outcomes: a line for each case as it ends, a record for whoever called us."""
import json
import shutil
import time
import traceback
from contextlib import contextmanager

from .process import Failed


class Skip(Exception):
    """Why a case cannot run here."""


class Report:
    """records: a file that gets one JSON document a case, or None."""

    def __init__(self, logs, records=None):
        self.logs, self.records = logs, records
        self.failed = 0

    @contextmanager
    def case(self, name, rig):
        """Run one case; the rig's folder is kept among the logs if it fails."""
        start = time.monotonic()
        status, text = "passed", ""
        try:
            yield self
        except Skip as reason:
            status, text = "skipped", str(reason)
        except Failed as failure:
            status, text = "failed", str(failure)
        except Exception:
            status, text = "failed", traceback.format_exc()
        if status == "failed":
            self.failed += 1
            rig.examine()
            text += f"\nlogs: {self.keep(name, rig.folder)}"
        self.record(name, status, time.monotonic() - start, text)

    def record(self, name, status, seconds, text=""):
        line = f"{status:8}{seconds:6.1f} s  vm {name}"
        print(line + (f": {text}" if text else ""), flush=True)
        if self.records:
            self.records.write(json.dumps({"name": name, "status": status, "seconds": seconds,
                                           "text": text}) + "\n")
            self.records.flush()

    def note(self, text):
        """A figure that is shown and not judged."""
        print(f"        {text}", flush=True)

    def keep(self, name, folder):
        kept = self.logs / name.replace("/", "-")
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                shutil.copy(path, kept / "-".join(path.relative_to(folder).parts))
        return kept
