#!/usr/bin/env bash
# Whether OpenCL has its loader and a platform here; else a line that says so, and the status 77.
set -euo pipefail
loaders=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
if [[ $loaders != *libOpenCL.so.1* ]] || ! compgen -G "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}/*.icd" >/dev/null; then
  echo "skipped: no platform of OpenCL is present; make test-opencl installs one"
  exit 77
fi
