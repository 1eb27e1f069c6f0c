# SPDX-License-Identifier: BSD-3-Clause
"""All cases of the vm suite, in the order in which they run."""
from . import matrix, life, kills, memory, bridge, firmware, front_end, idle, paths  # noqa: F401
from . import migration  # noqa: F401
