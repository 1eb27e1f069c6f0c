/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PATHS_H
#define VQLIFT_TOOLS_PATHS_H

#define VQL_DEFAULT_CONFIG    "/etc/vqlift/vqlift.yaml"
#define VQL_DEFAULT_CONTROL   "/run/vqlift/control.sock"
#define VQL_DEFAULT_STATE_DIR "/run/vqlift/state"

#endif
