// NVRTC for machines without it, for csrc/cuda_driver: the machine's C++ compiler makes modules of CUDA C that
// cuda_stub runs on the processor (cuda_shim.h).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "cuda_driver/library/cuda_api.h"
#include "cuda_shim.h"

namespace cuda = mydev::cuda_driver;
using cuda::Result;

namespace {

constexpr Result kCompilationFailed = 6;  // NVRTC_ERROR_COMPILATION

struct StubProgram {
  std::string source, binary, log;
};

StubProgram& as_program(cuda::Program program) {
  return *reinterpret_cast<StubProgram*>(program);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool run(const std::string& command, const std::string& log, std::string& said) {
  const bool succeeded = std::system((command + " 2> " + log).c_str()) == 0;  // NOLINT(cert-env33-c)
  if (!succeeded) said = text_of(log);
  return succeeded;
}

// The calls of a module's functions, whose names are in what the preprocessor makes of the source.
std::string calls_of(const std::string& preprocessed) {
  static const std::regex kernel(R"(STUB_GLOBAL\s+void\s+(\w+)\s*\()");
  std::set<std::string> names;
  for (std::sregex_iterator found(preprocessed.begin(), preprocessed.end(), kernel), end; found != end; ++found) {
    names.insert((*found)[1]);
  }
  std::string calls;
  for (const std::string& name : names) {
    calls += "extern \"C\" __attribute__((visibility(\"default\"))) int stub_parameters_" + name + " = stub_count(" +
             name + ");\nextern \"C\" __attribute__((visibility(\"default\"))) void stub_call_" + name +
             "(void** parameters) { stub_call(" + name + ", parameters); }\n";
  }
  return calls;
}

Result compile(StubProgram& program) {
  char directory[] = "/tmp/nvrtc-stub-XXXXXX";
  if (::mkdtemp(directory) == nullptr) return kCompilationFailed;
  const std::string base = std::string(directory) + "/kernels";
  std::ofstream(base + ".cpp") << kCudaShim << "#define __global__ STUB_GLOBAL\n#line 1\n" << program.source;
  bool made = run("c++ -E -P -std=c++20 -w -o " + base + ".ii " + base + ".cpp", base + ".log", program.log);
  if (made) {
    const std::string preprocessed = text_of(base + ".ii");
    std::ofstream(base + ".cc") << "#define STUB_GLOBAL\n" << preprocessed << calls_of(preprocessed);
    made = run("c++ -O1 -std=c++20 -w -fwrapv -ffp-contract=off -fvisibility=hidden -shared -fPIC -o " + base + ".so " +
                   base + ".cc",
               base + ".log", program.log);
  }
  if (made) program.binary = text_of(base + ".so");
  for (const char* file : {".cpp", ".ii", ".cc", ".log", ".so"}) ::unlink((base + file).c_str());
  ::rmdir(directory);
  return made ? cuda::kSuccess : kCompilationFailed;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) Result

extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(Result result) {
  return result == kCompilationFailed ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OF_THE_STUB";
}
EXPORT nvrtcVersion(int* major, int* minor) {
  *major = 0;
  *minor = 1;
  return cuda::kSuccess;
}
EXPORT nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return cuda::kSuccess;
}
EXPORT nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  return cuda::kSuccess;
}
EXPORT nvrtcCreateProgram(cuda::Program* program, const char* source, const char* /*name*/, int /*num_headers*/,
                          const char* const* /*headers*/, const char* const* /*header_names*/) {
  *program = reinterpret_cast<cuda::Program>(new StubProgram{source, "", ""});
  return cuda::kSuccess;
}
EXPORT nvrtcDestroyProgram(cuda::Program* program) {
  delete &as_program(*program);
  return cuda::kSuccess;
}
EXPORT nvrtcCompileProgram(cuda::Program program, int /*num_options*/, const char* const* /*options*/) {
  return compile(as_program(program));
}
EXPORT nvrtcGetProgramLogSize(cuda::Program program, size_t* bytes) {
  *bytes = as_program(program).log.size();
  return cuda::kSuccess;
}
EXPORT nvrtcGetProgramLog(cuda::Program program, char* log) {
  as_program(program).log.copy(log, std::string::npos);
  return cuda::kSuccess;
}
EXPORT nvrtcGetCUBINSize(cuda::Program program, size_t* bytes) {
  *bytes = as_program(program).binary.size();
  return cuda::kSuccess;
}
EXPORT nvrtcGetCUBIN(cuda::Program program, char* cubin) {
  as_program(program).binary.copy(cubin, std::string::npos);
  return cuda::kSuccess;
}
EXPORT nvrtcGetPTXSize(cuda::Program /*program*/, size_t* bytes) {
  *bytes = 0;
  return cuda::kSuccess;
}
EXPORT nvrtcGetPTX(cuda::Program /*program*/, char* /*ptx*/) {
  return cuda::kSuccess;
}
