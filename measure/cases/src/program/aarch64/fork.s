// The program of the fork measurements; `x86_64/fork.s` says what is read and written.
//
// By WAY_FIRST what lies between the stamps is not time but the system counter's ticks
// from before each fork until its child's first instruction.
//
// w20 the way to touch, x21 forks to go, x22 the anonymous mapping, x23 the
// lowest page of the stack, w24 the child, x25 what a call returns to.
.set WAY_VFORK, 1
.set WAY_FIRST, 2

// clone(2)'s flags, with SIGCHLD at the child's end.
.set LIKE_FORK, 17
.set LIKE_VFORK, 0x4111                 // CLONE_VFORK | CLONE_VM

// The counter. What comes before has been executed.
.macro ticks into
    isb
    mrs     \into, cntvct_el0
.endm

// A child by these flags, on the same stack.
.macro child flags
    mov     x0, #\flags
    mov     x1, #0
    mov     x2, #0
    mov     x3, #0
    mov     x4, #0
    must    SYS_clone
.endm

kumiki_program_fork:
    sub     sp, sp, #FRAME_BYTES
    mov     x19, sp
    mov     x0, x19
    mov     x1, #(FRAME_BYTES / 8)
1:  str     xzr, [x0], #8
    subs    x1, x1, #1
    b.ne    1b

    die_with_parent
    add     x1, x19, #FRAME_STACK
    mov     x2, #48
    bl      .Lreceive

    ldr     x0, [x19, #FRAME_HUGE]
    cbnz    x0, 1f
    ordinary_pages

    // One mapping whether the pages are huge or not: room to align to a huge
    // page is part of it and stays untouched.
1:  ldr     x1, [x19, #FRAME_ANON]
    cbz     x1, 2f
    add     x1, x1, #HUGE_PAGE
    mov     x0, #0
    mov     x2, #3                      // PROT_READ | PROT_WRITE
    mov     x3, #0x22                   // MAP_PRIVATE | MAP_ANONYMOUS
    mov     x4, #-1
    mov     x5, #0
    must    SYS_mmap
    mov     x25, x0
    add     x22, x0, #HUGE_PAGE
    sub     x22, x22, #1
    and     x22, x22, #0xffffffffffe00000
    ldr     x0, [x19, #FRAME_HUGE]
    cbz     x0, 2f
    mov     x0, x25
    ldr     x1, [x19, #FRAME_ANON]
    add     x1, x1, #HUGE_PAGE
    mov     x2, #14                     // MADV_HUGEPAGE
    must    SYS_madvise

2:  ldr     x0, [x19, #FRAME_WAY]
    cmp     x0, #WAY_FIRST
    b.ne    2f
    mov     x0, #0
    mov     x1, #PAGE
    mov     x2, #3                      // PROT_READ | PROT_WRITE
    mov     x3, #0x21                   // MAP_SHARED | MAP_ANONYMOUS
    mov     x4, #-1
    mov     x5, #0
    must    SYS_mmap
    str     x0, [x19, #FRAME_SHARED]
    str     xzr, [x0]                   // no child is to fault on it

    // The stack grows by one access to its lowest page: the kernel extends the
    // mapping down to it (mm/mmap.c, expand_stack).
2:  and     x23, x19, #0xfffffffffffff000
    ldr     x0, [x19, #FRAME_STACK]
    sub     x23, x23, x0
    cbz     x0, 3f
    mov     w1, #1
    strb    w1, [x23]
3:  ldr     w20, [x19, #FRAME_TOUCH]
    bl      .Ltouch_all

.Lfork_round:
    bl      .Lanswer
    add     x1, x19, #FRAME_COUNT
    mov     x2, #8
    bl      .Lreceive
    ldr     x21, [x19, #FRAME_COUNT]
    str     xzr, [x19, #ANSWER_DONE]
    str     xzr, [x19, #FRAME_TICKS]
    take_usage ANSWER_START
    take_clock ANSWER_START
    b       3f

1:  ldr     x9, [x19, #FRAME_WAY]
    cmp     x9, #WAY_VFORK
    b.eq    4f
    cmp     x9, #WAY_FIRST
    b.ne    5f
    ticks   x10
    str     x10, [x19, #FRAME_BEGIN]
5:  child   LIKE_FORK
    b       6f
4:  child   LIKE_VFORK                  // the child writes nothing: it has our stack
6:  cbz     w0, .Lfork_child
    mov     w24, w0
2:  mov     w0, w24
    add     x1, x19, #FRAME_STATUS
    mov     x2, #0
    mov     x3, #0
    system_call SYS_wait4
    cmn     x0, #EINTR
    b.eq    2b
    mov     x1, #SYS_wait4
    tbnz    x0, #63, .Lfail
    ldr     w0, [x19, #FRAME_STATUS]
    cbnz    w0, .Lfail                  // the child died
    ldr     x9, [x19, #FRAME_WAY]
    cmp     x9, #WAY_FIRST
    b.ne    7f
    ldr     x2, [x19, #FRAME_SHARED]
    ldr     x0, [x2]
    ldr     x1, [x19, #FRAME_BEGIN]
    sub     x0, x0, x1
    ldr     x1, [x19, #FRAME_TICKS]
    add     x0, x0, x1
    str     x0, [x19, #FRAME_TICKS]
7:  ldr     x0, [x19, #ANSWER_DONE]
    add     x0, x0, #1
    str     x0, [x19, #ANSWER_DONE]
    sub     x21, x21, #1
3:  cbnz    x21, 1b

    take_clock ANSWER_END
    take_usage ANSWER_END
    ldr     x9, [x19, #FRAME_WAY]
    cmp     x9, #WAY_FIRST
    b.ne    .Lfork_round
    str     xzr, [x19, #ANSWER_START]
    str     xzr, [x19, #(ANSWER_START + 8)]
    str     xzr, [x19, #ANSWER_END]
    ldr     x0, [x19, #FRAME_TICKS]
    str     x0, [x19, #(ANSWER_END + 8)]
    b       .Lfork_round

// Unless asked to touch, the child writes nothing: that would copy a page of the stack.
.Lfork_child:
    ldr     x9, [x19, #FRAME_WAY]
    cmp     x9, #WAY_FIRST
    b.ne    1f
    ticks   x10
    ldr     x2, [x19, #FRAME_SHARED]
    str     x10, [x2]
1:  ldr     w20, [x19, #FRAME_CHILD]
    cbz     w20, .Lend
    bl      .Ltouch_all
    b       .Lend

.Ltouch_all:
    mov     x25, x30
    adr     x9, .Lregion
    ldp     x0, x1, [x9]
    mov     w2, w20
    bl      .Ltouch
    mov     x0, x22
    ldr     x1, [x19, #FRAME_ANON]
    mov     w2, w20
    bl      .Ltouch
    mov     x0, x23
    ldr     x1, [x19, #FRAME_STACK]
    mov     w2, w20
    mov     x30, x25
    b       .Ltouch
