// Manually built plans with the kernels of kernels.cc, on float vectors.
#ifndef OPWRIGHT_TESTS_PLANS_H_
#define OPWRIGHT_TESTS_PLANS_H_

#include <memory>
#include <string>
#include <vector>

#include "kernels.h"
#include "runtime/plan/instance.h"
#include "runtime/plan/plan_builder.h"

namespace plans {

constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
constexpr DLDataType kInt64 = {kDLInt, 64, 1};
constexpr DLDataType kBool = {kDLBool, 8, 1};

using opwright::Role;
using opwright::Shape;

// Prepares a kernel of kernels.cc for arguments of equal shape; only "scale" reads `factor`.
std::shared_ptr<opwright::Prepared> Prepare(const char* name, size_t n_inputs, size_t n_outputs,
                                            const Shape& shape, double factor = 1.0);

class Maker {
 public:
  explicit Maker(const char* name = "plan", Shape shape = {8});

  uint32_t Outside(Role role, const char* name, DLDataType dtype = kFloat32, bool create = false);
  uint32_t Temp(DLDataType dtype = kFloat32, const Shape& shape = {8});
  uint32_t Dynamic(DLDataType dtype);
  void Kernel(std::shared_ptr<opwright::Prepared> prepared, std::vector<uint32_t> inputs,
              std::vector<uint32_t> outputs, uint64_t estimate_ns = 0);
  void Kernel(const char* name, const std::vector<uint32_t>& inputs,
              const std::vector<uint32_t>& outputs, uint64_t estimate_ns = 0);
  std::shared_ptr<const opwright::Plan> Build() { return builder.Build(nullptr); }

  opwright::PlanBuilder builder;

 private:
  Shape shape_;
  uint64_t space_ = 0;
  int32_t n_ops_ = 0;
};

// The results of one run.
struct Outcome {
  int32_t status;
  int32_t failed_op;
  std::string message;
  std::vector<std::vector<float>> fetches;
};

// Runs a plan with float feeds and fetches in the same way as the Python layer.
Outcome Run(const std::shared_ptr<const opwright::Plan>& plan,
            const std::shared_ptr<opwright::Scope>& scope, std::vector<std::vector<float>> feeds,
            const opwright::RunHooks* hooks = nullptr);

// Runs the plan of an instance that the caller owns.
Outcome RunOn(opwright::Instance* instance, const std::shared_ptr<opwright::Scope>& scope,
              std::vector<std::vector<float>> feeds, const opwright::RunHooks* hooks = nullptr);

// Sets a variable to n equal floats, replacing its tensor.
void SetVariable(opwright::Scope* scope, const char* name, int64_t n, float value);
float FirstOf(const opwright::Scope& scope, const char* name);

}  // namespace plans

#endif  // OPWRIGHT_TESTS_PLANS_H_
