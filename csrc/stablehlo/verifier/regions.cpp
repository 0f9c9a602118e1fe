#include "stablehlo/verifier/regions.h"

#include "stablehlo/verifier/checks.h"

namespace mydev::stablehlo {

namespace verifier {

namespace {

using Elements = std::vector<ElementType>;

void require_arguments(const Operation& op, const Region& region, size_t count) {
  require(op, region.arguments().size() == count, "a region takes ", region.arguments().size(), " arguments, expected ",
          count);
}

void require_types(const Operation& op, std::span<const Value* const> found, std::span<const Value* const> expected,
                   const char* what) {
  for (size_t i = 0; i < found.size(); ++i) {
    require(op, compatible(*found[i]->type, *expected[i]->type), what, " is of the type ", found[i]->type->text(),
            ", expected ", expected[i]->type->text());
  }
}

void require_results(const Operation& op, const Region& region, std::span<const Value* const> expected) {
  require(op, region.results().size() == expected.size(), "a region returns ", region.results().size(),
          " values, expected ", expected.size());
  require_types(op, region.results(), expected, "what a region returns");
}

void require_condition(const Operation& op, const Region& region) {
  const std::span<const Value* const> results = region.results();
  const bool is_condition = results.size() == 1 && results[0]->type->is_tensor() && results[0]->type->rank() == 0 &&
                            results[0]->type->element == ElementType::kPred;
  require(op, is_condition, "a condition returns something else than one tensor<i1>");
}

// The region must compute single elements from single elements.
void require_body(const Operation& op, const Region& region, const Elements& arguments, const Elements& results) {
  require_arguments(op, region, arguments.size());
  require(op, region.results().size() == results.size(), "a region returns ", region.results().size(),
          " values, expected ", results.size());
  const auto require_elements = [&op](std::span<const Value* const> values, const Elements& elements) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Type& type = *values[i]->type;
      require(op, type.is_tensor() && type.rank() == 0, "a region computes with ", type.text(),
              ", expected single elements");
      require(op, type.element == elements[i], "a region computes with ", type.text(), ", expected ",
              Type{TypeKind::kTensor, elements[i]}.text());
    }
  };
  require_elements(region.arguments(), arguments);
  require_elements(region.results(), results);
}

Elements elements_of(const Operation& op, std::span<const Value* const> values) {
  Elements elements;
  for (const Value* value : values) elements.push_back(tensor(op, *value).element);
  return elements;
}

// The region combines an element of each result with one more of it. Results may be of a wider type than the inputs.
void require_combination(const Operation& op, std::span<const Value* const> inputs) {
  const Elements given = elements_of(op, inputs), combined = elements_of(op, op.results);
  require(op, given.size() == combined.size(), "it has ", given.size(), " inputs and ", combined.size(), " results");
  for (size_t i = 0; i < given.size(); ++i) {
    require(op, is_promotable(given[i], combined[i]), "result ", i, " is of the type ", op.results[i]->type->text(),
            ", which does not hold the elements of a ", inputs[i]->type->text());
  }
  Elements arguments = combined;
  arguments.insert(arguments.end(), combined.begin(), combined.end());
  require_body(op, op.region(), arguments, combined);
}

void manual_computation(const Operation& op) {
  require_arguments(op, op.region(), op.operands.size());
  require(op, op.region().results().size() == op.results.size(), "its body returns ", op.region().results().size(),
          " values, and it has ", op.results.size(), " results");
}

void loop(const Operation& op) {
  for (const Region* region : op.regions) {
    require_arguments(op, *region, op.operands.size());
    require_types(op, region->arguments(), op.operands, "an argument of a region");
  }
  require_condition(op, op.region(0));
  require_results(op, op.region(1), op.operands);
}

void comparator(const Operation& op) {
  Elements arguments;
  for (const ElementType element : elements_of(op, op.operands)) arguments.insert(arguments.end(), 2, element);
  require_body(op, op.region(), arguments, {ElementType::kPred});
}

}  // namespace

}  // namespace verifier

void verify_regions(const Operation& op) {
  using namespace verifier;  // NOLINT(google-build-using-namespace)
  if (op.row().has(kRegionsAreBranches)) {
    for (const Region* region : op.regions) {
      require_arguments(op, *region, 0);
      require_results(op, *region, op.results);
    }
    return;
  }
  switch (op.op) {
    case Operator::kWhile:
      return loop(op);
    case Operator::kReduce:
    case Operator::kReduceWindow:
    case Operator::kScatter:
      return require_combination(op, op.operand_group("inputs"));
    case Operator::kMap:
      return require_body(op, op.region(), elements_of(op, op.operands), elements_of(op, op.results));
    case Operator::kAllReduce:
    case Operator::kReduceScatter:
      for (const ElementType element : elements_of(op, op.results)) {
        require_body(op, op.region(), {element, element}, {element});
      }
      return;
    case Operator::kSort:
      return comparator(op);
    case Operator::kSelectAndScatter: {
      const ElementType element = operand(op).element;
      require_body(op, op.region(0), {element, element}, {ElementType::kPred});
      return require_body(op, op.region(1), {element, element}, {element});
    }
    case Operator::kSdyManualComputation:
      return manual_computation(op);
    case Operator::kSdyNamedComputation:
      require_arguments(op, op.region(), op.operands.size());
      require_types(op, op.region().arguments(), op.operands, "an argument of a region");
      return require_results(op, op.region(), op.results);
    default:
      return;
  }
}

}  // namespace mydev::stablehlo
