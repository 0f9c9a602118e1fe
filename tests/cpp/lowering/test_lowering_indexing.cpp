// Parts of tensors whose starts other tensors give: the launches of kernels that they are lowered to.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lowering_fixture.h"
#include "program/text/text.h"

namespace mydev::lowering {
namespace {

// JAX writes x[i, j] like this. The kernel adds the size to negative indices; nothing else is launched.
TEST(LoweringIndexing, LeavesItToKernelsToCountFromTheEnd) {
  const auto text = [](const char* size, const std::string& use) {
    return function("%x: tensor<3x2xf32>, %i: tensor<4xi32>, %j: tensor<4xi32>", "tensor<4xf32>", std::string(R"(
    %zero = stablehlo.constant dense<0> : tensor<4xi32>
    %three = stablehlo.constant dense<)") + size + R"(> : tensor<4xi32>
    %below = stablehlo.compare LT, %i, %zero : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %sum = stablehlo.add %i, %three : tensor<4xi32>
    %row = stablehlo.select %below, %sum, %i : tensor<4xi1>, tensor<4xi32>
    %0 = stablehlo.broadcast_in_dim %row, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = stablehlo.reshape %j : (tensor<4xi32>) -> tensor<4x1xi32>
    )" + use + "\n return %r : tensor<4xf32>");
  };
  const std::string both = R"(
    %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %r = "stablehlo.gather"(%x, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
      start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> :
      (tensor<3x2xf32>, tensor<4x2xi32>) -> tensor<4xf32>)";
  const std::string rows = R"(
    %3 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> :
      (tensor<3x2xf32>, tensor<4x1xi32>) -> tensor<4x2xf32>
    %4 = stablehlo.slice %3 [0:4, 1:2] : (tensor<4x2xf32>) -> tensor<4x1xf32>
    %r = stablehlo.reshape %4 : (tensor<4x1xf32>) -> tensor<4xf32>)";
  const auto asks = [&](const char* size, const std::string& use) {
    const stablehlo::Module module = module_of(text(size, use));
    const LoweredProgram lowered = lower(module);
    return program::print(*lowered.program).find("mydev.where") != std::string::npos;
  };
  EXPECT_FALSE(asks("3", both));
  EXPECT_FALSE(asks("3", rows));
  EXPECT_TRUE(asks("2", both));  // than which the dimension is larger
  EXPECT_TRUE(asks("2", rows));
  const std::vector<std::vector<int32_t>> arguments = {{1, 2, 3, 4, 5, 6}, {-1, -9, 1, 7}, {0, -1, 1, 1}};
  for (const char* size : {"3", "2"}) {
    const bool is_size = std::string(size) == "3";
    EXPECT_EQ(run(text(size, both), arguments, 4), (std::vector<int32_t>{is_size ? 5 : 3, 1, 4, 6})) << size;
    EXPECT_EQ(run(text(size, rows), arguments, 4), (std::vector<int32_t>{is_size ? 6 : 4, 2, 4, 6})) << size;
  }
}

}  // namespace
}  // namespace mydev::lowering
