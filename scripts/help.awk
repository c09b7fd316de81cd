# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# Prints the targets of a Makefile: `##@ Group` starts a group, `target:  ## what it does` is a line of it.
BEGIN { FS = ":.*## " }
/^##@ / { printf "\n%s\n", substr($0, 5) }
/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $1, $2 }
