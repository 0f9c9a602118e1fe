// Frames made of a contract alone: operands, results and attributes as it allows them, with small reproducible values.
//
// A frame owns all that it points to and may be run many times; prepare() gives the buffers for one of its runs.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conform/case.h"
#include "conform/kernels/operand.h"
#include "conform/kernels/settings.h"
#include "conform/kernels/variation.h"
#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"

namespace mydev::conform {

class ContractFrame {
 public:
  static constexpr size_t kLength = 2;  // of lists

  // `dtypes`: the dtype of each variable. `wrong_operand`: this buffer has the dtype `wrong` instead.
  ContractFrame(const KernelContract& contract, std::vector<mydev_dtype> dtypes, Variation variation, Settings settings,
                int wrong_operand = -1, mydev_dtype wrong = MYDEV_DTYPE_INVALID);
  ContractFrame(const ContractFrame&) = delete;
  ContractFrame& operator=(const ContractFrame&) = delete;

  const KernelContract& contract() const { return contract_; }
  const std::vector<mydev_dtype>& dtypes() const { return dtypes_; }
  std::deque<Operand>& operands() { return operands_; }  // results, then operands, in the order of the buffers
  const std::deque<Operand>& operands() const { return operands_; }
  size_t num_results() const { return num_results_; }
  const std::vector<mydev_attribute>& attributes() const { return attributes_; }
  // Whether the variation makes a difference: its content is somewhere, an alias is possible, something is reversed.
  bool is_worth_it() const { return worth_it_; }
  std::string text() const;  // "f32 bf16, reversed; stride=2"

  // Returns the memory that the elements of an operand are in: its image, or that of the operand whose memory a result
  // is.
  const std::vector<unsigned char>& memory_of(const Operand& operand) const;
  // Finds an operand by name and position in a list; nullptr if it was left out.
  const Operand* find(const std::string& name, size_t position) const;
  const mydev_attribute* find_attribute(const std::string& name) const;

  // Returns the frame with its operands in these memories, one for each operand, each in place of the image's first
  // byte. The memories of results that are other operands' memory are ignored. Valid until the next call.
  mydev_frame prepare(const std::vector<unsigned char*>& memories);
  // Returns the frame with its operands in the host's images.
  mydev_frame prepare_on_host();

 private:
  mydev_dtype dtype_of(const ContractOperand& operand) const;
  void choose_sizes();
  void compute_sizes();
  Sizes size_of(size_t name, size_t position) const;
  int64_t least_size(std::string_view name) const;
  void make_attributes();
  mydev_attribute make_attribute(const ContractAttribute& attribute, int64_t index);
  mydev_attribute make_array(const ContractAttribute& attribute, int64_t integer);
  int64_t integer_of(const ContractAttribute& attribute, int64_t index) const;
  double real_of(const ContractAttribute& attribute, int64_t index) const;
  Sizes sizes_of(const ContractOperand& operand, size_t position) const;
  void add_operands(int wrong_operand, mydev_dtype wrong);
  void add(const ContractOperand& operand, bool is_result, bool is_number, mydev_dtype dtype, size_t position);
  bool is_reversed(const Operand& operand);
  void lay_out(Operand& operand);
  void set_number(Operand& operand) const;
  void share_memory();
  void fill(Operand& operand);
  bool has_special_floats() const;
  bool has_exact_integers() const;
  Value value_at(const Operand& operand, size_t index, const std::optional<OperandBounds>& bounds);

  const KernelContract& contract_;
  std::vector<mydev_dtype> dtypes_;
  Variation variation_;
  Settings settings_;
  std::vector<Sizes> sizes_;  // of the contract's names
  size_t entries_ = 0;        // of lists of sizes
  std::deque<Operand> operands_;
  std::vector<mydev_attribute> attributes_;
  std::deque<std::vector<int64_t>> int_arrays_;
  std::deque<std::vector<double>> float_arrays_;
  std::vector<mydev_buffer> buffers_;
  size_t num_results_ = 0;
  uint32_t seed_ = 17;
  bool worth_it_ = true;
};

// Makes each frame that the contract allows and that says something of a kernel. A share of them is of choices of
// dtypes, since each choice is a module to compile; it is of frames where there are fewer choices than shares.
void for_each_frame(const KernelContract& contract, const Checks& checks,
                    const std::function<void(ContractFrame& frame)>& use);

}  // namespace mydev::conform
