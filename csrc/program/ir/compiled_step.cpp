#include "program/ir/compiled_step.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "runtime/frame/frame.h"

namespace mydev::program {

void describe_compiled_launch(const CompiledLaunch& launch, Step& step) {
  const KernelParameters& parameters = launch.kernel->parameters();
  std::copy_n(step.results.begin() + parameters.results, parameters.updated, std::back_inserter(step.operands));
  const mydev_geometry& geometry = launch.geometry;
  std::array<int64_t, 3> grid{}, group{};
  std::ranges::copy(geometry.grid, grid.begin());
  std::ranges::copy(geometry.group, group.begin());
  const auto numbers = step.attributes.get();
  std::vector<mydev_attribute> attributes(numbers.begin(), numbers.end());
  attributes.push_back(int_array_attribute("grid", grid));
  attributes.push_back(int_array_attribute("group", group));
  attributes.push_back(int_attribute("local_memory", static_cast<int64_t>(geometry.local_memory)));
  step.attributes = Attributes(attributes);
  step.compiled = std::make_shared<const CompiledLaunch>(launch);
}

void keep_given_operands(const Step& step, mydev_frame& frame) noexcept {
  const KernelParameters& parameters = step.compiled->kernel->parameters();
  frame.num_inputs = parameters.operands;
  frame.num_attributes = static_cast<uint32_t>(parameters.numbers.size());
}

}  // namespace mydev::program
