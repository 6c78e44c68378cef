# The program of the fork measurements.
#
#   read   { stack_bytes, anon_bytes, touch, huge, child_touch, way }, u64 each
#   write  answer: prepared
#   read   count, u64
#   write  answer: start stamp, end stamp, forks done        ... and so on
#
# By WAY_FIRST what lies between the stamps is not time but the time stamp counter's ticks
# from before each fork until its child's first instruction.
#
# %rbp the way to touch, %r13 forks to go, %r14 the anonymous mapping, %r15 the
# lowest page of the stack.
.set WAY_VFORK, 1
.set WAY_FIRST, 2

# The time stamp counter in %rax; takes %rdx.
.macro ticks
    rdtsc
    shl     $32, %rdx
    or      %rdx, %rax
.endm

kumiki_program_fork:
    sub     $FRAME_BYTES, %rsp
    and     $-16, %rsp
    mov     %rsp, %r12
    mov     %r12, %rdi
    mov     $FRAME_BYTES / 8, %ecx
    xor     %eax, %eax
    rep stosq

    die_with_parent
    lea     FRAME_STACK(%r12), %rsi
    mov     $48, %edx
    call    .Lreceive

    cmpq    $0, FRAME_HUGE(%r12)
    jne     1f
    ordinary_pages

    # One mapping whether the pages are huge or not: room to align to a huge
    # page is part of it and stays untouched.
1:  mov     FRAME_ANON(%r12), %rsi
    test    %rsi, %rsi
    jz      2f
    add     $HUGE_PAGE, %rsi
    xor     %edi, %edi
    mov     $3, %edx                    # PROT_READ | PROT_WRITE
    mov     $0x22, %r10d                # MAP_PRIVATE | MAP_ANONYMOUS
    mov     $-1, %r8
    xor     %r9d, %r9d
    must    SYS_mmap
    lea     HUGE_PAGE - 1(%rax), %r14
    and     $-HUGE_PAGE, %r14
    cmpq    $0, FRAME_HUGE(%r12)
    je      2f
    mov     %rax, %rdi
    mov     FRAME_ANON(%r12), %rsi
    add     $HUGE_PAGE, %rsi
    mov     $14, %edx                   # MADV_HUGEPAGE
    must    SYS_madvise

2:  cmpq    $WAY_FIRST, FRAME_WAY(%r12)
    jne     2f
    xor     %edi, %edi
    mov     $PAGE, %esi
    mov     $3, %edx                    # PROT_READ | PROT_WRITE
    mov     $0x21, %r10d                # MAP_SHARED | MAP_ANONYMOUS
    mov     $-1, %r8
    xor     %r9d, %r9d
    must    SYS_mmap
    mov     %rax, FRAME_SHARED(%r12)
    movq    $0, (%rax)                  # no child is to fault on it

    # The stack grows by one access to its lowest page: the kernel extends the
    # mapping down to it (mm/mmap.c, expand_stack).
2:  mov     %r12, %r15
    and     $-PAGE, %r15
    sub     FRAME_STACK(%r12), %r15
    cmpq    $0, FRAME_STACK(%r12)
    je      3f
    movb    $1, (%r15)
3:  mov     FRAME_TOUCH(%r12), %ebp
    call    .Ltouch_all

.Lfork_round:
    call    .Lanswer
    lea     FRAME_COUNT(%r12), %rsi
    mov     $8, %edx
    call    .Lreceive
    mov     FRAME_COUNT(%r12), %r13
    movq    $0, ANSWER_DONE(%r12)
    movq    $0, FRAME_TICKS(%r12)
    take_usage ANSWER_START
    take_clock ANSWER_START
    jmp     3f

1:  cmpq    $WAY_VFORK, FRAME_WAY(%r12)
    je      4f
    cmpq    $WAY_FIRST, FRAME_WAY(%r12)
    jne     5f
    ticks
    mov     %rax, FRAME_BEGIN(%r12)
5:  must    SYS_fork
    jmp     6f
4:  must    SYS_vfork                   # the child writes nothing: it has our stack
6:  test    %eax, %eax
    jz      .Lfork_child
    mov     %eax, %ebx
2:  mov     %ebx, %edi
    lea     FRAME_STATUS(%r12), %rsi
    xor     %edx, %edx
    xor     %r10d, %r10d
    system_call SYS_wait4
    cmp     $-EINTR, %rax
    je      2b
    mov     $SYS_wait4, %ecx
    test    %rax, %rax
    js      .Lfail
    mov     FRAME_STATUS(%r12), %eax
    test    %eax, %eax                  # the child died
    jnz     .Lfail
    cmpq    $WAY_FIRST, FRAME_WAY(%r12)
    jne     7f
    mov     FRAME_SHARED(%r12), %rdx
    mov     (%rdx), %rax
    sub     FRAME_BEGIN(%r12), %rax
    add     %rax, FRAME_TICKS(%r12)
7:  incq    ANSWER_DONE(%r12)
    dec     %r13
3:  test    %r13, %r13
    jnz     1b

    take_clock ANSWER_END
    take_usage ANSWER_END
    cmpq    $WAY_FIRST, FRAME_WAY(%r12)
    jne     .Lfork_round
    xor     %eax, %eax
    mov     %rax, ANSWER_START(%r12)
    mov     %rax, ANSWER_START + 8(%r12)
    mov     %rax, ANSWER_END(%r12)
    mov     FRAME_TICKS(%r12), %rax
    mov     %rax, ANSWER_END + 8(%r12)
    jmp     .Lfork_round

# Unless asked to touch, the child writes nothing, not even a return address:
# that would copy a page of the stack.
.Lfork_child:
    cmpq    $WAY_FIRST, FRAME_WAY(%r12)
    jne     1f
    ticks
    mov     FRAME_SHARED(%r12), %rdx
    mov     %rax, (%rdx)
1:  mov     FRAME_CHILD(%r12), %ebp
    test    %ebp, %ebp
    jz      .Lend
    call    .Ltouch_all
    jmp     .Lend

.Ltouch_all:
    mov     .Lregion(%rip), %rdi
    mov     .Lregion + 8(%rip), %rsi
    mov     %ebp, %edx
    call    .Ltouch
    mov     %r14, %rdi
    mov     FRAME_ANON(%r12), %rsi
    mov     %ebp, %edx
    call    .Ltouch
    mov     %r15, %rdi
    mov     FRAME_STACK(%r12), %rsi
    mov     %ebp, %edx
    jmp     .Ltouch
