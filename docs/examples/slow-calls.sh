#!/bin/sh
# Which call is slow on this machine? Measures, and lists what costs more than on a known one.
# Words after it choose: `slow-calls.sh entry. process.fork`. `kumiki results ls` lists known machines.
#
#   slow-calls.sh [FILTER]...
set -eu
known=${KNOWN:-@epyc-zen4-kvm-6.18}

kumiki measure --quick "$@" > /dev/null
# 1: something is slower. That is an answer here, no error.
kumiki compare "$known" latest || [ $? -eq 1 ]
