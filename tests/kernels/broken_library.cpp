// Libraries with one thing wrong, which MYDEV_DEFECT says; one shared object for each (tests/cpp/CMakeLists.txt).
#include <stdexcept>

#include "mydev/custom_call.h"

enum Defect {
  no_query,
  null_table,
  old_major,
  absurd_count,
  null_kernels,
  null_kernel,
  bad_name,
  taken_name,
  small_table,
  throwing_query,
  no_function
};

namespace {

constexpr Defect kDefect = MYDEV_DEFECT;

mydev_code succeed(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}

const mydev_kernel kGood = {sizeof(mydev_kernel), "broken.good", succeed, nullptr, nullptr, nullptr};
const mydev_kernel kOdd = {sizeof(mydev_kernel),
                           kDefect == bad_name     ? "not a name"
                           : kDefect == taken_name ? "mydev.add"
                                                   : "broken.odd",
                           kDefect == no_function ? nullptr : succeed,
                           nullptr,
                           nullptr,
                           nullptr};
const mydev_kernel* const kKernels[] = {&kGood, kDefect == null_kernel ? nullptr : &kOdd};
const mydev_library kLibrary = {kDefect == small_table ? 8 : sizeof(mydev_library),
                                kDefect == old_major ? 77U : MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                0,
                                nullptr,
                                nullptr,
                                kDefect == null_kernels ? nullptr : kKernels,
                                kDefect == absurd_count ? 4000000000U : 2U};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* MYDEV_QUERY(uint32_t /*major*/, uint32_t /*minor*/) {
  if (kDefect == throwing_query) throw std::runtime_error("not today");
  return kDefect == null_table ? nullptr : &kLibrary;
}
