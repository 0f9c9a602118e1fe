#include "kernels/registry/library_table.h"

#include <exception>

#include "kernels/spec/struct_copy.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

constexpr uint32_t kMaxKernels = 4096;

std::string version_text(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace

mydev_library query_library(const std::string& file, void* symbol) {
  MYDEV_CHECK(symbol != nullptr, MYDEV_INVALID_ARGUMENT, "'", file,
              "' is no library of kernels: it does not export " MYDEV_CUSTOM_CALL_QUERY_SYMBOL
              " (see mydev/custom_call.h)");
  const std::string ours = version_text(MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_CUSTOM_CALL_VERSION_MINOR);
  const mydev_library* theirs = nullptr;
  std::string thrown;
  try {
    theirs = reinterpret_cast<mydev_custom_call_query_fn>(symbol)(MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                                                  MYDEV_CUSTOM_CALL_VERSION_MINOR);
  } catch (const std::exception& error) {
    thrown = std::string(": ") + error.what();
  } catch (...) {
    thrown = ": something that is no std::exception";
  }
  wait_for_streams_at_exit();
  MYDEV_CHECK(thrown.empty(), MYDEV_INVALID_ARGUMENT, "library '", file, "': its query function threw", thrown);
  MYDEV_CHECK(theirs != nullptr, MYDEV_FAILED_PRECONDITION, "library '", file, "' refuses version ", ours,
              " of mydev/custom_call.h (" MYDEV_CUSTOM_CALL_QUERY_SYMBOL " returned NULL); rebuild it against this ",
              "version");
  MYDEV_CHECK(theirs->struct_size >= MYDEV_END_OF(mydev_library, version_minor), MYDEV_INVALID_ARGUMENT, "library '",
              file, "' gives a table of ", theirs->struct_size, " bytes, too small to hold its version");
  MYDEV_CHECK(theirs->version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_FAILED_PRECONDITION, "library '", file,
              "' is built for version ", version_text(theirs->version_major, theirs->version_minor),
              " of mydev/custom_call.h, this host needs ", MYDEV_CUSTOM_CALL_VERSION_MAJOR, ".x; rebuild it");
  const mydev_library library =
      copy_struct(theirs, MYDEV_END_OF(mydev_library, num_kernels), ("the table of '" + file + "'").c_str());
  MYDEV_CHECK(library.num_kernels <= kMaxKernels, MYDEV_INVALID_ARGUMENT, "library '", file, "' says that it has ",
              library.num_kernels, " kernels; the limit is ", kMaxKernels);
  MYDEV_CHECK(library.num_kernels == 0 || library.kernels != nullptr, MYDEV_INVALID_ARGUMENT, "library '", file,
              "': its table of kernels is NULL");
  for (uint32_t i = 0; i < library.num_kernels; ++i) {
    MYDEV_CHECK(library.kernels[i] != nullptr, MYDEV_INVALID_ARGUMENT, "library '", file, "': kernel ", i, " is NULL");
  }
  return library;
}

}  // namespace mydev
