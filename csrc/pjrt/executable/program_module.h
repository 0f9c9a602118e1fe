// A compiled module that is one program of csrc/program, for all devices that run it. Thread-safe, as CompiledModule
// says.
#pragma once

#include "pjrt/executable/compiled_module.h"
#include "program/ir/program.h"

namespace mydev::pjrt {

class ProgramModule final : public CompiledModule {
 public:
  // The description's shapes and donations are the program's. Raises INVALID_ARGUMENT where the program returns a
  // parameter twice.
  explicit ProgramModule(program::SharedProgram program);

  const ModuleDescription& description() const override { return description_; }
  std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const override;
  program::SharedProgram program() const override { return program_; }

 private:
  program::SharedProgram program_;
  ModuleDescription description_;
};

}  // namespace mydev::pjrt
