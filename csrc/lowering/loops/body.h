// A called program while it is built: the body of a loop, or a branch. It takes the values around it that it uses as
// parameters. One thread.
#pragma once

#include <span>
#include <vector>

#include "lowering/frame.h"
#include "program/ir/builder.h"

namespace mydev::lowering {

bool is_token(const stablehlo::Value& value) noexcept;

// The values around the regions that they use, each once; without tokens.
std::vector<const stablehlo::Value*> free_values(std::span<const stablehlo::Region* const> regions);

class Body {
 public:
  Body(Frame& outer, const char* name);

  Frame& frame() noexcept { return frame_; }
  Emitter& emit() noexcept { return emit_; }

  // Takes parameters for a tensor or a tuple of the caller. Constants are made anew: the caller gives nothing for them.
  void take(const stablehlo::Value& value, const Frame& outer);
  program::Operand read(const program::Operand& given);
  program::Operand updated(const program::Operand& given);  // donated and returned
  void return_values(std::span<const stablehlo::Value* const> values);
  program::SharedProgram build() &&;

 private:
  Tensor taken(const Tensor& given, const Frame& outer);

  program::ProgramBuilder builder_;
  Emitter emit_;
  Frame frame_;
};

// Adds the operands that a caller gives for the values that a body takes.
void give(Frame& frame, std::span<const stablehlo::Value* const> values, std::vector<program::Operand>& operands);

}  // namespace mydev::lowering
