//! Which of tokio's tests are not held, and why.

/// So many are left, of tokio 1.54.
pub(super) const LEAST: usize = 45;

const WRITES: &str = "kumiki-tokio's file has write_at and no position: AsyncWrite is tokio's own";
const OPTIONS: &str = "OpenOptions is tokio's own: here File::open_with has the flags of open(2)";
const PENDING: &str =
    "asks that a file in memory is not ready when it is first polled, which it is here";
const WINDOWS: &str = "for Windows";
const OTHERS: &str = "has no function that kumiki-tokio has";
const BUFFER: &str = "set_max_buf_size is of tokio's buffer: here none is between";

/// File, test (`*`: all), reason.
pub(super) const NOT_HELD: &[(&str, &str, &str)] = &[
    ("fs.rs", "try_clone_should_preserve_max_buf_size", BUFFER),
    ("fs_copy.rs", "copy_permissions", WRITES),
    ("fs_dir.rs", "build_dir", OTHERS),
    ("fs_dir.rs", "create_all", OTHERS),
    ("fs_dir.rs", "create_dir", OTHERS),
    ("fs_dir.rs", "remove", OTHERS),
    (
        "fs_dir.rs",
        "read_dir_entry_info",
        "an entry's file_type is what the folder says, at once, and no second look at the file",
    ),
    ("fs_file.rs", "basic_write", WRITES),
    ("fs_file.rs", "basic_write_and_shutdown", WRITES),
    ("fs_file.rs", "buf_reader_seek_after_write", WRITES),
    ("fs_file.rs", "rewind_seek_position", WRITES),
    ("fs_file.rs", "write_into_std", WRITES),
    ("fs_file.rs", "write_into_std_immediate", WRITES),
    ("fs_file.rs", "write_to_clone", WRITES),
    ("fs_file.rs", "write_vectored", WRITES),
    ("fs_file.rs", "write_vectored_and_shutdown", WRITES),
    ("fs_file.rs", "set_times", WRITES),
    ("fs_file.rs", "set_max_buf_size_panics_on_zero", BUFFER),
    ("fs_file.rs", "set_max_buf_size_read", BUFFER),
    ("fs_file.rs", "set_max_buf_size_write", BUFFER),
    ("fs_file.rs", "file_debug_fmt", "another type has another Debug"),
    ("fs_file.rs", "read_file_from_unix_fd", "a file is AsFd, and made from an OwnedFd, no number"),
    ("fs_file.rs", "unix_fd_is_valid", "a file is AsFd, and made from an OwnedFd, no number"),
    ("fs_file_join_error.rs", "*", WRITES),
    ("fs_link.rs", "test_symlink", "attributes have is_symlink and no std::fs::FileType"),
    ("fs_link.rs", "test_hard_link_error_destination_already_exists", OTHERS),
    ("fs_link.rs", "test_hard_link_error_source_is_directory", OTHERS),
    ("fs_link.rs", "test_hard_link_error_source_not_found", OTHERS),
    ("fs_open_options.rs", "*", OPTIONS),
    ("fs_open_options_windows.rs", "*", WINDOWS),
    ("fs_symlink_dir_windows.rs", "*", WINDOWS),
    ("fs_symlink_file_windows.rs", "*", WINDOWS),
    ("fs_uring.rs", "*", OPTIONS),
    ("fs_uring_cancel_open.rs", "*", OPTIONS),
    ("fs_uring_completed_then_dropped_before_repoll.rs", "*", OPTIONS),
    ("fs_uring_file_read.rs", "test_file_partial_read_then_write", OPTIONS),
    ("fs_uring_file_read.rs", "test_file_read_4gib_buf_size", BUFFER),
    ("fs_uring_file_read.rs", "test_file_read_after_write", OPTIONS),
    ("fs_uring_file_read.rs", "test_file_read_custom_buf_size", BUFFER),
    ("fs_uring_file_read.rs", "test_file_read_then_write", OPTIONS),
    (
        "fs_uring_no_io.rs",
        "fs_write_should_fall_back_to_blocking_if_runtime_has_no_io_driver",
        OTHERS,
    ),
    (
        "fs_uring_no_io.rs",
        "open_options_should_fall_back_to_blocking_if_runtime_has_no_io_driver",
        OPTIONS,
    ),
    (
        "fs_uring_no_io.rs",
        "rename_should_fall_back_to_blocking_if_runtime_has_no_io_driver",
        OTHERS,
    ),
    ("fs_uring_read.rs", "cancel_op_future", PENDING),
    ("fs_uring_read.rs", "shutdown_runtime_while_performing_io_uring_ops", PENDING),
    ("fs_uring_rename.rs", "cancel_op_future", OTHERS),
    ("fs_uring_rename.rs", "shutdown_runtime_while_performing_io_uring_ops", OTHERS),
    ("fs_uring_runtime_shutdown.rs", "*", OPTIONS),
    ("fs_uring_statx.rs", "cancel_op_future", PENDING),
    ("fs_uring_statx.rs", "shutdown_runtime_while_performing_io_uring_ops", PENDING),
    ("fs_uring_statx_fd_leak_test.rs", "*", PENDING),
    ("fs_write.rs", "*", OTHERS),
];
