set promisc all on
set fwd macswap
start
