// Functions about kernels for pjrt_mydev's Python: their records as JSON, the shapes of their results, libraries of
// them, and the kernels that a program launches.
//
// Functions return a mydev_code and a text: the answer, or what is wrong. It is valid until this thread's next call.
// Thread-safe.
#include <string>
#include <utility>

#include "kernels/registry/kernel_library.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "pjrt/executable/executable.h"
#include "pjrt/python/python_entries.h"
#include "program/text/text.h"
#include "runtime/base/api.h"
#include "runtime/frame/dtype.h"

namespace mydev::pjrt {

namespace {

const mydev_kernel& found(const char* name) {
  const mydev_kernel* kernel = find_kernel(name);
  MYDEV_CHECK(kernel != nullptr, MYDEV_NOT_FOUND, "there is no kernel '", name,
              "'; load the library that has it (pjrt_mydev.load_custom_calls, MYDEV_CUSTOM_CALLS)");
  return *kernel;
}

program::SharedProgram program_of(const char* fingerprint) {
  const SharedExecutableInfo info = find_executable(fingerprint);
  MYDEV_CHECK(info != nullptr, MYDEV_NOT_FOUND, "there is no executable of fingerprint ", fingerprint,
              " any more; compile the program again");
  return info->module->program();
}

}  // namespace

// Loads a library, and returns its file.
extern "C" MYDEV_API int32_t mydev_pjrt_load_kernels(const char* file, const char** out_text) {
  return answer(out_text, [&] { return load_kernel_library(file).file; });
}

// Returns the kernel's record as JSON.
extern "C" MYDEV_API int32_t mydev_pjrt_describe_kernel(const char* name, const char** out_text) {
  return answer(out_text, [&] {
    (void)found(name);
    return as_json(describe_kernel(name));
  });
}

// Returns the number of each element type, by NumPy's name for it.
extern "C" MYDEV_API int32_t mydev_pjrt_dtypes(const char** out_text) {
  return answer(out_text, [] {
    Description::Dictionary numbers;
    for (const DtypeRow& row : kDtypes) {
      if (row.python_name != nullptr) numbers.emplace_back(row.python_name, Description{int64_t{row.dtype}});
    }
    return as_json({std::move(numbers)});
  });
}

// Returns the program of the executable with that fingerprint as text (program/text/text.h).
extern "C" MYDEV_API int32_t mydev_pjrt_program_text(const char* fingerprint, const char** out_text) {
  return answer(out_text, [&] { return program::print(*program_of(fingerprint)); });
}

// Returns the address of a program::SharedProgram, which is the caller's, of the executable with that fingerprint.
extern "C" MYDEV_API int32_t mydev_pjrt_program(const char* fingerprint, void** out_program, const char** out_text) {
  return answer(out_text, [&] { *out_program = new program::SharedProgram(program_of(fingerprint)); });
}

// Infers the results of a kernel with a signature. The operands' data are not looked at, and all attributes are given
// in the signature's order. There is room for `capacity` results.
extern "C" MYDEV_API int32_t mydev_pjrt_infer_results(const char* name, const mydev_buffer* operands,
                                                      uint32_t num_operands, const mydev_attribute* attributes,
                                                      uint32_t num_attributes, mydev_shape* results, uint32_t capacity,
                                                      uint32_t* out_count, const char** out_text) {
  return answer(out_text, [&] {
    const mydev_kernel& kernel = found(name);
    MYDEV_CHECK(kernel.signature != nullptr, MYDEV_UNIMPLEMENTED, "kernel '", name,
                "' has no signature, so its results are not known; call it with jax.ffi.ffi_call");
    mydev_frame frame{};
    frame.struct_size = sizeof frame;
    frame.buffers = operands;
    frame.num_inputs = num_operands;
    frame.attributes = attributes;
    frame.num_attributes = num_attributes;
    frame.kernel = &kernel;
    check_operands(kernel, frame);
    *out_count = num_outputs(*kernel.signature, num_operands);
    MYDEV_CHECK(*out_count <= capacity, MYDEV_INVALID_ARGUMENT, "kernel '", name, "' has ", *out_count,
                " results, and there is room for ", capacity);
    infer_results(kernel, frame, {results, *out_count});
  });
}

}  // namespace mydev::pjrt
