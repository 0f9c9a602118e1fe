// StableHLO programs from text, lowered and run on device 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lowering/lowering.h"
#include "program_fixture.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

namespace mydev::lowering {

using program::DeviceArray;
using Values = std::vector<float>;

inline stablehlo::Module module_of(const std::string& text) {
  stablehlo::Module module = stablehlo::read_text(text);
  stablehlo::verify(module);
  return module;
}

// The module outlives the program.
inline LoweredProgram lower(const stablehlo::Module& module, const Devices& devices = {}) {
  return lower(std::shared_ptr<const stablehlo::Module>(std::shared_ptr<void>(), &module), devices);
}

inline std::string function(const std::string& arguments, const std::string& results, const std::string& body) {
  return "module @m {\n func.func @main(" + arguments + ") -> " + results + " {\n" + body + "\n }\n}";
}

// The first result, of floats or of anything of four bytes.
template <typename T = float>
std::vector<T> run(const std::string& text, const std::vector<std::vector<T>>& arguments, size_t count) {
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module);
  std::vector<std::unique_ptr<DeviceArray<T>>> arrays;
  std::vector<program::Binding> bindings;
  for (const std::vector<T>& values : arguments) {
    bindings.push_back(arrays.emplace_back(std::make_unique<DeviceArray<T>>(values))->binding());
  }
  const DeviceArray<T> result(std::vector<T>(count, T{77}));
  program::Executor executor = program::executor_of(lowered.program);
  executor.run(default_stream(0), bindings, std::vector<program::Binding>{result.binding()});
  return result.read();
}

}  // namespace mydev::lowering
