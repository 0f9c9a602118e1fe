#!/bin/sh
# Runs a compiler through ccache; CMake's launcher (cmake/compiler_cache.cmake). The user's own CCACHE_ variables win.
#
# Paths below the checkout are made relative, so that a clone in another directory finds what this one compiled. Headers
# count by what they contain; their times count in one case, which ccache sees to: what changes while it is compiled is
# not kept.
root=${0%/tools/*}
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}"
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"
exec ccache "$@"
