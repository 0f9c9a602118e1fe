// A fused step (fusion.h) on a device that runs the host's kernels: the launches of its program, tile by tile.
//
// A tile is some elements of the one shape. For each, the kernels run one after the other, on views of what lies in
// memory and on temporaries that are the tile's alone and stay in the processor's cache. Tiles are independent: the
// threads of the process's pool share them. Made once; then any thread may run it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/driver/device.h"

namespace mydev::program {

class Tiles {
 public:
  // Borrows the step, which is kFused; or kRepeat: then a tile goes through all rounds before the next begins. Nothing
  // where the device does not run the plain records of the host's kernels for all of its program, the program is no
  // single run of such launches, or what a round leaves to the next is given as another operand too.
  static std::unique_ptr<const Tiles> make(const Step& step, const Device& device);

  // The frame has the step's results' buffers, then its operands'. Gives the code and the message of a kernel that
  // fails.
  mydev_code run(const mydev_frame& frame) const noexcept;

  // What the launches compute, as text: "t = mydev.mul(x, w); y = mydev.relu(t)", or "10 times: ...".
  const std::string& body() const noexcept { return body_; }

 private:
  struct Operand {
    enum Kind : uint8_t { kMemory, kTemporary, kNumber };
    Kind kind;
    size_t index;                  // of the frame's buffer, or of the temporary
    int64_t offset;                // from the buffer's data, or in the thread's memory
    std::vector<int64_t> strides;  // of all dimensions, or of a tile
    mydev_dtype dtype;
    mydev_scalar number;
  };
  struct Launch {
    const mydev_kernel* record;
    uint32_t num_outputs;
    std::vector<Operand> operands;
    std::span<const mydev_attribute> attributes;
  };
  // A temporary of the program, from the launch that writes it first to the last that reads it.
  struct Temporary {
    SlotIndex slot;
    int64_t bytes;  // of an element
    size_t first, last;
    size_t place = 0;  // which of the places that temporaries take turns in
  };
  class Worker;

  Tiles() = default;
  bool add_launch(const Step& launch, const Step& step, const Device& device);
  void merge_dimensions();
  std::vector<int64_t> share_places();
  int64_t bytes_of_memory() const;
  void choose_tile();

  uint64_t id_ = 0;  // that no other had or will have
  std::string body_;
  uint64_t rounds_ = 1;
  std::vector<int64_t> sizes_;
  std::vector<Launch> launches_;
  std::vector<Temporary> temporaries_;
  // A tile is up to chunk_ entries of dimension split_, with all of those behind it and one of those before it.
  size_t split_ = 0;
  int64_t chunk_ = 1, inner_ = 1, chunks_ = 1, count_ = 1;
  uint64_t workspace_ = 0;  // of a thread
};

}  // namespace mydev::program
