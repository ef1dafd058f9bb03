// Compares the plans of all processes before any data is sent.
#include <algorithm>
#include <sstream>

#include "group.h"
#include "library.h"

namespace opwright_mpi {

using opwright::Status;

Status Group::BeginComparison(const Poll& poll, int64_t digest,
                              const std::vector<std::string>* entries) {
  constexpr const char* kWho = "dist.compare_plans";
  OPWRIGHT_RETURN_IF_ERROR(Check(kWho));
  if (is_comparing_) {  // left over from a run that failed before its first collective
    OPWRIGHT_RETURN_IF_ERROR(WaitForComparison(kWho, poll));
  }
  own_[0] = digest;
  own_[1] = n_started_;
  all_.resize(static_cast<size_t>(2 * size));
  entries_ = entries;
  if (exchange_ != nullptr) {
    exchange_->PostComparison(digest, n_started_);
    OPWRIGHT_RETURN_IF_ERROR(Started(kWho, kSuccess));
  } else {
    const int code = Mpi().Iallgather_c(own_, 2, TypeInt64(), all_.data(), 2, TypeInt64(), control,
                                        &comparison_);
    OPWRIGHT_RETURN_IF_ERROR(Started(kWho, code));
  }
  is_comparing_ = true;
  return Status::Ok();
}

Status Group::WaitForComparison(const char* who, const Poll& poll) {
  if (exchange_ == nullptr) {
    OPWRIGHT_RETURN_IF_ERROR(Wait(who, poll, &comparison_));
  } else {
    const auto has_all = [this] { return static_cast<int>(exchange_->HasComparison()); };
    OPWRIGHT_RETURN_IF_ERROR(Wait(who, poll, has_all));
    exchange_->ReadComparison(&all_);
  }
  is_comparing_ = false;
  return Status::Ok();
}

Status Group::EndComparison(const char* who, const Poll& poll) {
  if (!is_comparing_) return Status::Ok();
  OPWRIGHT_RETURN_IF_ERROR(WaitForComparison(who, poll));
  for (int i = 0; i < size; ++i) {
    if (all_[static_cast<size_t>(2 * i)] != own_[0]) return DescribeDifference(who, poll);
  }
  for (int i = 0; i < size; ++i) {
    const int64_t theirs = all_[static_cast<size_t>(2 * i) + 1];
    if (theirs == own_[1]) continue;
    return Break(opwright::detail::Concat(
        who, ": group '", name, "': all processes must have run the same collectives, got ",
        own_[1], " on rank ", rank, " and ", theirs, " on rank ", i,
        "; a run failed on only one of them. Restart all of them from the last checkpoint"));
  }
  return Status::Ok();
}

// Every process calls this function, since all of them have received all digests.
Status Group::DescribeDifference(const char* who, const Poll& poll) {
  std::string text;
  for (const std::string& entry : *entries_) text += entry + '\n';
  const auto length = static_cast<int64_t>(text.size());
  std::vector<int64_t> lengths(static_cast<size_t>(size));
  OPWRIGHT_RETURN_IF_ERROR(Gather(who, poll, &length, sizeof(length), lengths.data()));
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  text.resize(static_cast<size_t>(longest), '\n');
  std::string all(static_cast<size_t>(longest * size), '\n');
  OPWRIGHT_RETURN_IF_ERROR(Gather(who, poll, text.data(), longest, all.data()));
  const auto entries_of = [&](int i) {
    std::vector<std::string> lines;
    std::istringstream theirs(all.substr(static_cast<size_t>(i * longest),
                                         static_cast<size_t>(lengths[static_cast<size_t>(i)])));
    for (std::string line; std::getline(theirs, line);) lines.push_back(line);
    return lines;
  };
  // All processes report the same pair: rank 0, and the first process that differs from it.
  int other = 1;
  while (all_[static_cast<size_t>(2 * other)] == all_[0]) ++other;
  const std::vector<std::string> mine = entries_of(0);
  const std::vector<std::string> theirs = entries_of(other);
  size_t i = 0;
  while (i < mine.size() && i < theirs.size() && mine[i] == theirs[i]) ++i;
  const auto entry = [i](const std::vector<std::string>& lines) {
    return i < lines.size() ? lines[i] : std::string("nothing more");
  };
  return Status::Error(who, ": group '", name,
                       "': all processes must build the same program and run the same collectives, "
                       "got ",
                       entry(mine), " on rank 0, and ", entry(theirs), " on rank ", other,
                       "; use the same program, feeds and fetches on all, and a separate program "
                       "for what only one process computes. No data was sent");
}

}  // namespace opwright_mpi
