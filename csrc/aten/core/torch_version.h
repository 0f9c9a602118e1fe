// What the C++ code takes differently from one version of torch to the next, in one place.
#pragma once

#include <c10/util/Exception.h>
#include <torch/version.h>

// What the CPU raises where bools are subtracted: NotImplementedError since torch 2.14, before RuntimeError.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 14
#define MYDEV_CHECK_BOOLS TORCH_CHECK_NOT_IMPLEMENTED
#else
#define MYDEV_CHECK_BOOLS TORCH_CHECK
#endif
