# The program of the exec measurements: two files with this code exec each
# other while a counter in the arguments goes down.
#
#   argv: own name, counter (10 decimal digits), touch (one digit),
#         the other's name, whatever else is asked for
#   fd 2: a file that outlives the exec; the start stamp is kept in it
#
# An image whose counter is zero answers and waits for the next counter, the
# text itself; so the first image of all answers that it is ready.
#
# %rbx the arguments (argc first), %r13 the counter's text.
.set ARGC, 0
.set ARGV_SELF, 8
.set ARGV_COUNTER, 16
.set ARGV_TOUCH, 24
.set ARGV_OTHER, 32
.set ARGV_AFTER, 8 + 8                  # past argc and argv's closing null
.set COUNTER_DIGITS, 10
.set NOTEBOOK, 2

kumiki_program_exec:
    mov     %rsp, %rbx
    sub     $FRAME_BYTES, %rsp
    and     $-16, %rsp
    mov     %rsp, %r12
    mov     ARGV_COUNTER(%rbx), %r13

    mov     ARGV_TOUCH(%rbx), %rax
    movzbl  (%rax), %edx
    sub     $'0', %edx
    mov     .Lregion(%rip), %rdi
    mov     .Lregion + 8(%rip), %rsi
    call    .Ltouch

    # Counter minus one, digit by digit; a borrow out of the first digit says
    # that it was zero.
.Lexec_count:
    lea     COUNTER_DIGITS - 1(%r13), %rdi
1:  decb    (%rdi)
    cmpb    $'0', (%rdi)
    jae     .Lexec_other
    movb    $'9', (%rdi)
    dec     %rdi
    cmp     %r13, %rdi
    jae     1b

    take_clock ANSWER_END
    take_usage ANSWER_END
    die_with_parent
    ordinary_pages
    movq    $0, ANSWER_DONE(%r12)
    movq    $0, ANSWER_AT(%r12)
    movq    $0, ANSWER_ERROR(%r12)
    mov     $NOTEBOOK, %edi
    lea     ANSWER_START(%r12), %rsi
    mov     $STAMP_BYTES, %edx
    xor     %r10d, %r10d
    must    SYS_pread64
    call    .Lanswer

    mov     %r13, %rsi
    mov     $COUNTER_DIGITS, %edx
    call    .Lreceive
    take_usage ANSWER_START
    take_clock ANSWER_START
    mov     $NOTEBOOK, %edi
    lea     ANSWER_START(%r12), %rsi
    mov     $STAMP_BYTES, %edx
    xor     %r10d, %r10d
    must    SYS_pwrite64
    jmp     .Lexec_count

    # Becomes the other. Its file may still be open for writing in a child of
    # the harness that has not reached its own exec: that passes.
.Lexec_other:
    mov     ARGV_SELF(%rbx), %rax
    mov     ARGV_OTHER(%rbx), %rdi
    mov     %rdi, ARGV_SELF(%rbx)
    mov     %rax, ARGV_OTHER(%rbx)
    lea     ARGV_SELF(%rbx), %rsi
    mov     ARGC(%rbx), %rax
    lea     ARGV_AFTER(%rbx, %rax, 8), %rdx
2:  system_call SYS_execve
    cmp     $-ETXTBSY, %rax
    je      2b
    movq    $0, ANSWER_DONE(%r12)
    mov     $SYS_execve, %ecx
    jmp     .Lfail

# The writer of the file appends where the data and bss are, and how large.
    .balign 8
.Lregion:
kumiki_program_end:
.text
