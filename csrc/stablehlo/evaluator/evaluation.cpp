#include "stablehlo/evaluator/evaluation.h"

#include <array>
#include <memory>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

constexpr int64_t kElementGrain = 2048;  // elements, of some 20 ns each

Evaluation evaluate_elementwise(const Module&, const Operation& op) {
  // In clamp and select, an operand of rank 0 stands for all elements.
  return [&op, scalar = ScalarOperation(op)](auto operands, auto results) {
    const Type& type = *op.result().type;
    parallel_for(type.element_count(), kElementGrain, [&](int64_t begin, int64_t end) {
      std::array<Number, 3> numbers;
      for (int64_t i = begin; i < end; ++i) {
        for (size_t k = 0; k < operands.size(); ++k) {
          const Type& from = *op.operand(k).type;
          numbers[k] = element(from, operands[k], from.rank() == 0 ? 0 : i);
        }
        set_element(type, results[0], i, scalar.apply(numbers.data()));
      }
    });
  };
}

Evaluation evaluate_map(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  return [&op, body](auto operands, auto results) {
    const Type& type = *op.result().type;
    parallel_for(type.element_count(), kElementGrain, [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers();
      for (int64_t i = begin; i < end; ++i) {
        for (size_t k = 0; k < operands.size(); ++k) registers[k] = element(*op.operand(k).type, operands[k], i);
        body->run(registers);
        set_element(type, results[0], i, body->result(registers, 0));
      }
    });
  };
}

}  // namespace

Evaluation make_evaluation(const Module& module, const Operation& op) {
  for (const auto* values : {&op.operands, &op.results}) {
    for (const Value* value : *values) {
      if (!value->type->is_tensor() || !value->type->is_static()) {
        op.fail(MYDEV_UNIMPLEMENTED, "is supported for tensors of sizes that are known, not for ", value->type->text());
      }
    }
  }
  if (is_elementwise(op)) return evaluate_elementwise(module, op);
  switch (op.op) {
    case Operator::kMap:
      return evaluate_map(module, op);
    case Operator::kReduce:
      return evaluate_reduce(module, op);
    case Operator::kReduceWindow:
      return evaluate_reduce_window(module, op);
    case Operator::kSelectAndScatter:
      return evaluate_select_and_scatter(module, op);
    case Operator::kSort:
      return evaluate_sort(module, op);
    case Operator::kCustomCall:
      if (op.string("call_target_name") == kApproxTopK) return evaluate_approx_top_k(module, op);
      op.fail(MYDEV_UNIMPLEMENTED, "is not computed by an evaluation");
    case Operator::kBitcastConvert:
      return evaluate_bitcast_convert(op);
    case Operator::kDynamicPad:
      return evaluate_dynamic_pad(op);
    case Operator::kRealDynamicSlice:
      return evaluate_real_dynamic_slice(op);
    case Operator::kGather:
    case Operator::kDynamicGather:
      return evaluate_gather(op);
    case Operator::kScatter:
      return evaluate_scatter(module, op);
    case Operator::kDynamicSlice:
      return evaluate_dynamic_slice(op);
    case Operator::kDynamicUpdateSlice:
      return evaluate_dynamic_update_slice(op);
    case Operator::kDotGeneral:
      return evaluate_dot_general(op);
    case Operator::kConvolution:
    case Operator::kDynamicConv:
      return evaluate_convolution(op);
    case Operator::kRngBitGenerator:
      return evaluate_rng_bit_generator(op);
    case Operator::kRng:
      return evaluate_rng(op);
    case Operator::kFft:
      return evaluate_fft(op);
    case Operator::kCholesky:
      return evaluate_cholesky(op);
    case Operator::kTriangularSolve:
      return evaluate_triangular_solve(op);
    default:
      op.fail(MYDEV_UNIMPLEMENTED, "is not supported yet");
  }
}

}  // namespace mydev::stablehlo
