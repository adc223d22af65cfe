#pragma once
// A datatype of MPI that frees itself. Included by sources only.

#include <utility>

#include <mpi.h>

namespace shmoe::apps {

class MpiType {
 public:
  MpiType() = default;
  explicit MpiType(MPI_Datatype type) : type_(type) { MPI_Type_commit(&type_); }
  MpiType(MpiType&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  MpiType& operator=(MpiType&& other) noexcept {
    std::swap(type_, other.type_);
    return *this;
  }
  ~MpiType() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// One row of bytes: counts of rows stay 32-bit where bytes would not.
inline MpiType row_type(std::size_t row_bytes) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(row_bytes), MPI_BYTE, &type);
  return MpiType{type};
}

}  // namespace shmoe::apps
