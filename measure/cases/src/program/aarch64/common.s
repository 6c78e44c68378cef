// What the programs share; `x86_64/common.s` says what they are.
//
// Registers that keep their meaning: x19 the frame on the stack, which begins
// with the answer. A system call changes x0 alone; its number is in x8.

// System calls, include/uapi/asm-generic/unistd.h. There is no fork and no vfork.
.set SYS_read, 63
.set SYS_write, 64
.set SYS_pread64, 67
.set SYS_pwrite64, 68
.set SYS_exit_group, 94
.set SYS_clock_gettime, 113
.set SYS_getrusage, 165
.set SYS_prctl, 167
.set SYS_clone, 220
.set SYS_execve, 221
.set SYS_mmap, 222
.set SYS_madvise, 233
.set SYS_wait4, 260

.set EINTR, 4
.set ETXTBSY, 26

.set PAGE, 4096
.set HUGE_PAGE, 0x200000

// How pages are touched.
.set TOUCH_NONE, 0
.set TOUCH_READ, 1
.set TOUCH_WRITE, 2

// A stamp: struct timespec, struct rusage of the program, of its children.
.set STAMP_SELF, 16
.set STAMP_CHILDREN, 160
.set STAMP_BYTES, 304

// The answer, as `answer.rs` reads it.
.set ANSWER_DONE, 0
.set ANSWER_AT, 8
.set ANSWER_ERROR, 16
.set ANSWER_START, 24
.set ANSWER_END, ANSWER_START + STAMP_BYTES
.set ANSWER_BYTES, ANSWER_END + STAMP_BYTES

// The rest of the frame: what the program was asked for, and wait4's status.
.set FRAME_STACK, ANSWER_BYTES
.set FRAME_ANON, ANSWER_BYTES + 8
.set FRAME_TOUCH, ANSWER_BYTES + 16
.set FRAME_HUGE, ANSWER_BYTES + 24
.set FRAME_CHILD, ANSWER_BYTES + 32
.set FRAME_WAY, ANSWER_BYTES + 40
.set FRAME_COUNT, ANSWER_BYTES + 48
.set FRAME_STATUS, ANSWER_BYTES + 56
.set FRAME_BEGIN, ANSWER_BYTES + 64     // the counter before a fork
.set FRAME_TICKS, ANSWER_BYTES + 72     // until the children's first instructions
.set FRAME_SHARED, ANSWER_BYTES + 80    // the page in which a child says when that was
.set FRAME_BYTES, 736

.macro system_call number
    mov     x8, #\number
    svc     #0
.endm

// A system call without which the program cannot go on.
.macro must number
    system_call \number
    mov     x1, #\number
    tbnz    x0, #63, .Lfail
.endm

.macro take_clock stamp
    mov     x0, #4                      // CLOCK_MONOTONIC_RAW
    add     x1, x19, #\stamp
    system_call SYS_clock_gettime
.endm

.macro take_usage stamp
    mov     x0, #0                      // RUSAGE_SELF
    add     x1, x19, #(\stamp + STAMP_SELF)
    system_call SYS_getrusage
    mov     x0, #-1                     // RUSAGE_CHILDREN
    add     x1, x19, #(\stamp + STAMP_CHILDREN)
    system_call SYS_getrusage
.endm

// Makes the kernel kill the program when the thread that started it ends.
.macro die_with_parent
    mov     x0, #1                      // PR_SET_PDEATHSIG
    mov     x1, #9                      // SIGKILL
    must    SYS_prctl
.endm

// Ordinary pages only, whatever the machine's setting for transparent huge
// pages; fork and exec hand it on.
.macro ordinary_pages
    mov     x0, #41                     // PR_SET_THP_DISABLE
    mov     x1, #1
    mov     x2, #0
    mov     x3, #0
    mov     x4, #0
    must    SYS_prctl
.endm

// Bytes to be copied, never executed in place: read-only data.
.section .rodata.kumiki_program, "a", %progbits

.globl kumiki_program_exit, kumiki_program_exit_end
.hidden kumiki_program_exit, kumiki_program_exit_end
.globl kumiki_program_start, kumiki_program_end
.hidden kumiki_program_start, kumiki_program_end
.globl kumiki_program_fork, kumiki_program_exec
.hidden kumiki_program_fork, kumiki_program_exec

// The smallest program: it ends.
    .balign 4
kumiki_program_exit:
    mov     x0, #0
    system_call SYS_exit_group
kumiki_program_exit_end:

    .balign 16
kumiki_program_start:

// Touches each page of the x1 bytes at x0 in the way w2 says.
.Ltouch:
    cbz     w2, 4f                      // TOUCH_NONE
    add     x1, x0, x1
    b       3f
1:  cmp     w2, #TOUCH_WRITE
    b.eq    2f
    ldrb    w3, [x0]
    add     x0, x0, #PAGE
    b       3f
2:  mov     w3, #1
    strb    w3, [x0]
    add     x0, x0, #PAGE
3:  cmp     x0, x1
    b.lo    1b
4:  ret

// Reads a command of exactly x2 bytes to x1. The harness writes a command
// at once and a pipe keeps so few bytes together, so that a short read is the
// end of the file: the harness has gone.
.Lreceive:
    mov     x0, #0
    system_call SYS_read
    cmn     x0, #EINTR
    b.eq    .Lreceive
    cmp     x0, x2
    b.ne    .Lend
    ret

// Writes the answer.
.Lanswer:
    mov     x0, #1
    mov     x1, x19
    mov     x2, #ANSWER_BYTES
    system_call SYS_write
    cmn     x0, #EINTR
    b.eq    .Lanswer
    ret

// Answers that system call x1 returned x0, and ends.
.Lfail:
    str     x1, [x19, #ANSWER_AT]
    str     x0, [x19, #ANSWER_ERROR]
    bl      .Lanswer
    mov     x0, #1
    system_call SYS_exit_group

.Lend:
    mov     x0, #0
    system_call SYS_exit_group
