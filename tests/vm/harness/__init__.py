# SPDX-License-Identifier: BSD-3-Clause
"""What the vm suite's cases are made of: processes, guests, namespaces, the daemon, traffic."""
