// A file descriptor that is closed in the end.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace kumiki {

class Descriptor {
public:
	Descriptor() = default;

	// Opens a path; nothing is open if that fails, for want of descriptors or of rights.
	Descriptor(const std::string &path, int flags)
	{
		do
			fd_ = open(path.c_str(), flags | O_CLOEXEC);
		while (fd_ < 0 && errno == EINTR);
	}

	Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}

	Descriptor &operator=(Descriptor &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}

	~Descriptor()
	{
		if (fd_ >= 0)
			close(fd_);
	}

	bool is_open() const
	{
		return fd_ >= 0;
	}

	int number() const
	{
		return fd_;
	}

private:
	int fd_ = -1;
};

} // namespace kumiki
