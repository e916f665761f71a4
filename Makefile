# Names for commands; what they do is in scripts/.
.PHONY: demo test lint golden bench bench-load bench-tamp vmlinux

demo:        ; @scripts/demo
test:        ; @scripts/test
lint:        ; @scripts/lint
golden:      ; @scripts/golden
bench:       ; @scripts/bench
bench-load:  ; @scripts/bench-load
bench-tamp:  ; @scripts/bench-tamp
vmlinux:     ; @scripts/vmlinux
