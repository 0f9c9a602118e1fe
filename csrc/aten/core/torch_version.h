// The differences between versions of torch that the C++ code handles, in one place.
#pragma once

#include <c10/util/Exception.h>
#include <torch/version.h>

// Whether a method that came with torch 2.`minor` is there to be overridden.
#define MYDEV_TORCH_HAS(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

// Raises the CPU's error for the subtraction of bools: NotImplementedError since torch 2.14, RuntimeError before.
#if MYDEV_TORCH_HAS(14)
#define MYDEV_CHECK_BOOLS TORCH_CHECK_NOT_IMPLEMENTED
#else
#define MYDEV_CHECK_BOOLS TORCH_CHECK
#endif
