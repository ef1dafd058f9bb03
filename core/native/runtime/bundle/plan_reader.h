// Builds the plans that a bundle describes, for one batch and number of threads.
#ifndef OPWRIGHT_RUNTIME_PLAN_READER_H_
#define OPWRIGHT_RUNTIME_PLAN_READER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/plan/plan_builder.h"

namespace opwright {

class PlanReader {
 public:
  PlanReader(Bundle* bundle, Tokens* tokens, int32_t n_threads)
      : bundle_(*bundle), tokens_(*tokens), n_threads_(n_threads) {}

  // Returns the last plan; the other plans are its children. Throws kFormat, kKernel, kPlugin
  // and the errors of PlanBuilder.
  std::shared_ptr<const Plan> Read();

 private:
  // An operator's attributes, with the memory that the structs point to.
  struct Attributes {
    std::vector<ow_attr> attrs;
    std::deque<std::string> texts;
    std::deque<std::vector<int64_t>> ints;
    std::deque<std::vector<double>> floats;
    std::deque<std::vector<uint8_t>> bools;
    std::deque<std::vector<ow_string>> strings;
  };

  std::shared_ptr<const Plan> ReadPlan();
  void ReadValue(PlanBuilder* builder);
  void ReadKernel(PlanBuilder* builder);
  void ReadAttribute(Attributes* into, std::string* key);
  int64_t KeyInt(std::string* key);
  std::string KeyText(std::string* key);
  std::shared_ptr<Prepared> Prepare(const std::vector<uint32_t>& kernels,
                                    const PrepareRequest& request, const std::string& key,
                                    int32_t op_index);
  void ReadBranch(PlanBuilder* builder);
  void ReadLoop(PlanBuilder* builder);
  std::vector<Elements> ReadElements();
  std::pair<std::shared_ptr<const Plan>, Bindings> ReadChild();
  int32_t OpIndex() { return tokens_.Int<int32_t>(-1, INT32_MAX, "an operator"); }
  // Reads a value, or -1.
  int64_t MaybeValue() { return tokens_.Int<int64_t>(-1, UINT32_MAX, "a value"); }

  Bundle& bundle_;
  Tokens& tokens_;
  const int32_t n_threads_;
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<uint64_t> sizes_;  // per plan, the number of nested instances, including itself
  uint64_t size_ = 1;            // the same count for the current plan
  std::vector<Meta> metas_;      // metas of the current plan's values
  std::vector<bool> are_read_;   // whether each value has elements
  std::map<std::string, std::shared_ptr<Prepared>> prepared_;
};

}  // namespace opwright

#endif  // OPWRIGHT_RUNTIME_PLAN_READER_H_
