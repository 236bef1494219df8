#!/bin/sh
# What some tests need beyond Python, from Debian's packages: hosts in network namespaces (ip, tc, nft), a browser
# that opens the report of a validation, a C compiler for the baselines. Without root or apt nothing is installed,
# and those tests say what they miss and skip. With the argument `slurm`: Slurm, for tools/slurm_cluster.py, instead.
set -eu
missing=
want() { # want COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
if [ "${1:-}" = slurm ]; then
    want slurmd slurm-wlm
    want munged munge
else
    want ip iproute2
    want tc iproute2
    want nft nftables
    want chromium chromium
    want gcc gcc
    [ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
fi
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed here (no root, or no apt-get):$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
# shellcheck disable=SC2086 # a list of names
apt-get install -y -q --no-install-recommends $missing >/dev/null
