set portlist 2,0,1,3
set fwd io
start
