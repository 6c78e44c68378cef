# What the programs share. Each runs freestanding: no C library, no writable
# data of its own (its state is on the stack and in registers), so that the
# data segment holds the measured bytes and nothing else.
#
# Registers that keep their meaning: %r12 the frame on the stack, which begins
# with the answer. The kernel clobbers %rax, %rcx and %r11 in a system call.

# System calls, arch/x86/entry/syscalls/syscall_64.tbl.
.set SYS_read, 0
.set SYS_write, 1
.set SYS_mmap, 9
.set SYS_pread64, 17
.set SYS_pwrite64, 18
.set SYS_madvise, 28
.set SYS_fork, 57
.set SYS_vfork, 58
.set SYS_execve, 59
.set SYS_wait4, 61
.set SYS_getrusage, 98
.set SYS_prctl, 157
.set SYS_clock_gettime, 228
.set SYS_exit_group, 231

.set EINTR, 4
.set ETXTBSY, 26

.set PAGE, 4096
.set HUGE_PAGE, 0x200000

# How pages are touched.
.set TOUCH_NONE, 0
.set TOUCH_READ, 1
.set TOUCH_WRITE, 2

# A stamp: struct timespec, struct rusage of the program, of its children.
.set STAMP_SELF, 16
.set STAMP_CHILDREN, 160
.set STAMP_BYTES, 304

# The answer, as `answer.rs` reads it.
.set ANSWER_DONE, 0
.set ANSWER_AT, 8
.set ANSWER_ERROR, 16
.set ANSWER_START, 24
.set ANSWER_END, ANSWER_START + STAMP_BYTES
.set ANSWER_BYTES, ANSWER_END + STAMP_BYTES

# The rest of the frame: what the program was asked for, and wait4's status.
.set FRAME_STACK, ANSWER_BYTES
.set FRAME_ANON, ANSWER_BYTES + 8
.set FRAME_TOUCH, ANSWER_BYTES + 16
.set FRAME_HUGE, ANSWER_BYTES + 24
.set FRAME_CHILD, ANSWER_BYTES + 32
.set FRAME_WAY, ANSWER_BYTES + 40
.set FRAME_COUNT, ANSWER_BYTES + 48
.set FRAME_STATUS, ANSWER_BYTES + 56
.set FRAME_BEGIN, ANSWER_BYTES + 64     # the counter before a fork
.set FRAME_TICKS, ANSWER_BYTES + 72     # until the children's first instructions
.set FRAME_SHARED, ANSWER_BYTES + 80    # the page in which a child says when that was
.set FRAME_BYTES, 736

.macro system_call number
    mov     $\number, %eax
    syscall
.endm

# A system call without which the program cannot go on.
.macro must number
    system_call \number
    mov     $\number, %ecx
    test    %rax, %rax
    js      .Lfail
.endm

.macro take_clock stamp
    mov     $4, %edi                    # CLOCK_MONOTONIC_RAW
    lea     \stamp(%r12), %rsi
    system_call SYS_clock_gettime
.endm

.macro take_usage stamp
    xor     %edi, %edi                  # RUSAGE_SELF
    lea     \stamp + STAMP_SELF(%r12), %rsi
    system_call SYS_getrusage
    mov     $-1, %rdi                   # RUSAGE_CHILDREN
    lea     \stamp + STAMP_CHILDREN(%r12), %rsi
    system_call SYS_getrusage
.endm

# Makes the kernel kill the program when the thread that started it ends.
.macro die_with_parent
    mov     $1, %edi                    # PR_SET_PDEATHSIG
    mov     $9, %esi                    # SIGKILL
    must    SYS_prctl
.endm

# Ordinary pages only, whatever the machine's setting for transparent huge
# pages; fork and exec hand it on.
.macro ordinary_pages
    mov     $41, %edi                   # PR_SET_THP_DISABLE
    mov     $1, %esi
    xor     %edx, %edx
    xor     %r10d, %r10d
    xor     %r8d, %r8d
    must    SYS_prctl
.endm

# Bytes to be copied, never executed in place: read-only data.
.section .rodata.kumiki_program, "a", @progbits

.globl kumiki_program_exit, kumiki_program_exit_end
.hidden kumiki_program_exit, kumiki_program_exit_end
.globl kumiki_program_start, kumiki_program_end
.hidden kumiki_program_start, kumiki_program_end
.globl kumiki_program_fork, kumiki_program_exec
.hidden kumiki_program_fork, kumiki_program_exec

# The smallest program: it ends.
kumiki_program_exit:
    xor     %edi, %edi
    system_call SYS_exit_group
kumiki_program_exit_end:

    .balign 16
kumiki_program_start:

# Touches each page of the %rsi bytes at %rdi in the way %edx says.
.Ltouch:
    test    %edx, %edx                  # TOUCH_NONE
    jz      4f
    add     %rdi, %rsi
    jmp     3f
1:  cmp     $TOUCH_WRITE, %edx
    je      2f
    mov     (%rdi), %al
    add     $PAGE, %rdi
    jmp     3f
2:  movb    $1, (%rdi)
    add     $PAGE, %rdi
3:  cmp     %rsi, %rdi
    jb      1b
4:  ret

# Reads a command of exactly %rdx bytes to %rsi. The harness writes a command
# at once and a pipe keeps so few bytes together, so that a short read is the
# end of the file: the harness has gone.
.Lreceive:
    xor     %edi, %edi
    system_call SYS_read
    cmp     $-EINTR, %rax
    je      .Lreceive
    cmp     %rdx, %rax
    jne     .Lend
    ret

# Writes the answer.
.Lanswer:
    mov     $1, %edi
    mov     %r12, %rsi
    mov     $ANSWER_BYTES, %edx
    system_call SYS_write
    cmp     $-EINTR, %rax
    je      .Lanswer
    ret

# Answers that system call %rcx returned %rax, and ends.
.Lfail:
    mov     %rcx, ANSWER_AT(%r12)
    mov     %rax, ANSWER_ERROR(%r12)
    call    .Lanswer
    mov     $1, %edi
    system_call SYS_exit_group

.Lend:
    xor     %edi, %edi
    system_call SYS_exit_group
