// StableHLO, as the layers below read and lower it.
#include <algorithm>
#include <utility>

#include "lowering/lowering.h"
#include "pjrt/program_module.h"
#include "runtime/base/status.h"
#include "stablehlo/bytecode/reader.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

namespace mydev::pjrt {

namespace {

// What a module is made of, in the order in which it must go.
struct Compiled {
  stablehlo::Module module;
  lowering::LoweredProgram lowered;
};

class StablehloInstance final : public ModuleInstance {
 public:
  StablehloInstance(std::shared_ptr<const Compiled> compiled, std::unique_ptr<ModuleInstance> instance)
      : compiled_(std::move(compiled)), instance_(std::move(instance)) {}
  void run(const ModuleRun& run) override { instance_->run(run); }

 private:
  std::shared_ptr<const Compiled> compiled_;
  std::unique_ptr<ModuleInstance> instance_;
};

class StablehloModule final : public CompiledModule {
 public:
  explicit StablehloModule(stablehlo::Module module)
      : compiled_(compile(std::move(module))),
        program_(compiled_->lowered.program),
        description_(program_.description()) {
    const stablehlo::Function& main = compiled_->module.main();
    size_t next = 0;
    for (const stablehlo::FunctionArgument& argument : main.arguments) {
      if (argument.value->type->is_tensor()) description_.parameters.at(next++).shape = shape_of(*argument.value->type);
    }
    next = 0;
    for (const stablehlo::FunctionResult& result : main.results) {
      if (result.type->is_tensor()) description_.results.at(next++).shape = shape_of(*result.type);
    }
  }

  const ModuleDescription& description() const override { return description_; }
  std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const override {
    return std::make_unique<StablehloInstance>(compiled_, program_.load(place));
  }

 private:
  static std::shared_ptr<const Compiled> compile(stablehlo::Module module) {
    auto compiled = std::make_shared<Compiled>(std::move(module), lowering::LoweredProgram{});
    stablehlo::verify(compiled->module);
    compiled->lowered = lowering::lower(compiled->module);
    return compiled;
  }
  static SharedShape shape_of(const stablehlo::Type& type) {
    return make_shape(element_type(stablehlo::element_row(type.element).name), type.dims);
  }

  std::shared_ptr<const Compiled> compiled_;
  ProgramModule program_;
  ModuleDescription description_;
};

}  // namespace

SharedModule compile_stablehlo(std::string_view code, const CompileOptions& options) {
  MYDEV_CHECK(options.num_replicas * options.num_partitions == 1, MYDEV_UNIMPLEMENTED, "a program for ",
              options.num_replicas, " replicas of ", options.num_partitions,
              " partitions; programs for one device are supported");
  const auto bytes = std::as_bytes(std::span(code));
  return std::make_shared<StablehloModule>(stablehlo::is_bytecode(bytes) ? stablehlo::read_bytecode(bytes)
                                                                         : stablehlo::read_text(code));
}

}  // namespace mydev::pjrt
