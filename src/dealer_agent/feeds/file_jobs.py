"""What the processes share that import one file of a dealer, or try it.

A large file takes a minute of processor time and much memory, which the process that answers requests must not spend.
"""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TypeVar

from msgspec import Struct

from dealer_agent.catalogue_loading.child_processes import limit_process, memory_limit_ends_process, run_job
from dealer_agent.config import SettingsError
from dealer_agent.config.keys import load_cipher
from dealer_agent.config.settings import Settings
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption import EncryptionError
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store

TEMPORARY: Final = (StorageError, SettingsError, EncryptionError, OSError)
"""The errors of a job whose reason is not in the file."""
_Job = TypeVar("_Job", bound=Struct)


class JobDealer(Struct, frozen=True):
    """The dealer of a job.

    `folder` has the keys: it is the folder of the dealer's installation if `is_installation`, else that of the dealer.
    """

    database_url: str
    folder: str
    is_installation: bool
    profile: Profile

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The dealer of these settings."""
        # The settings of a file have more members than the profile.
        profile = Profile(**{name: getattr(settings.dealer, name) for name in Profile.__struct_fields__})
        folder = settings.installation or settings.folder
        return cls(settings.database_url, str(folder), settings.installation is not None, profile)

    def open_store(self) -> Store:
        """Opens the database for a `with` block. Raises StorageError, SettingsError and EncryptionError."""
        cipher = load_cipher(Path(self.folder), os.environ)
        return Store.open(self.database_url, cipher, many_dealers=self.is_installation)


def problem_text(problem: Exception) -> str:
    """What to tell a person about one of the errors TEMPORARY."""
    if isinstance(problem, OSError):
        return (
            f"the file cannot be read, or there is no space for temporary files: {problem.strerror}; look at the disk"
            " of this machine"
        )
    return str(problem)


def run_file_job(kind: type[_Job], do: Callable[[_Job], None]) -> None:
    """Does the job of this process, within the limits of an import. `do` raises one of TEMPORARY, and MemoryError."""

    gc.set_threshold(50_000)  # As in a command: the rows of a file live long.

    def do_within_limits(job: _Job) -> None:
        with memory_limit_ends_process():
            limit_process()
            do(job)

    run_job(kind, do_within_limits, TEMPORARY, problem_text)
