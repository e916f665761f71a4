"""Prints what scipy, statsmodels and ruptures say of the series `known` of `src/history/tests.rs`.

Run with Python 3, numpy 2.2.0, scipy 1.16.3, statsmodels 0.15.0, ruptures 1.1.10; its output is in that file.
"""
import numpy as np, itertools
from scipy.spatial.distance import cdist, pdist
from scipy import stats, linalg
i=np.arange(40)
y=np.cos(.9*i)+.5*np.sin(2.3*i)+np.where(i>=14,1.5,0)+np.where(i>=29,.8,0)
def q(a,b):
    m,n=len(a),len(b); a=a[:,None];b=b[:,None]
    return m*n/(m+n)*(2*cdist(a,b).mean()-pdist(a).mean()-pdist(b).mean())
print("energy:",[(t,k,repr(q(y[:t],y[t:k]))) for t,k in [(14,29),(14,40),(5,10),(29,40)]])
best=max(((q(y[:t],y[t:k]),t,k) for t in range(5,36) for k in range(t+5,41)))
print("best",best[1:],repr(best[0]/pdist(y[:,None]).mean()))
from statsmodels.tsa.stattools import acf
print("lag1",repr(acf(y,nlags=1,fft=False)[1]))
import ruptures as rpt
for n,k in [(40,2),(39,1)]:
    print("ruptures",n,k,rpt.Dynp(model="l2",min_size=5,jump=1).fit(y[:n]).predict(n_bkps=k))
# one step in AR(1): generalised least squares by the dense covariance
from statsmodels.regression.linear_model import GLS
n=40
GRID=[0,.1,.2,.3,.4,.5,.6,.7,.8,.9,.95]
def dev(X,p):
    S=linalg.toeplitz(p**np.arange(n))/(1-p*p)
    r=GLS(y,X,sigma=S).fit(); rss=float(r.wresid@r.wresid)
    return n*np.log(rss/n)+np.linalg.slogdet(S)[1]
one=np.ones((n,1))
d0=min(dev(one,p) for p in GRID)
d1,t,p=min((dev(np.column_stack([one,i>=t]),p),t,p) for p in GRID for t in range(5,36))
print("step",t,p,repr(d0-d1))
# effect at 14 and 29: interval
def infl(m,p): return 1+2*sum((1-k/m)*p**k for k in range(1,m))
seg=[y[:14],y[14:29],y[29:]]
means=[s.mean() for s in seg]; left=np.concatenate([s-s.mean() for s in seg])
r1=acf(left,nlags=1,fft=False)[1]; m=40/3; ph=min(max((m*r1+1)/(m-3),0),.95)
infs=[infl(len(s),ph) for s in seg]; free=max(40-sum(infs),1); var=left@left/free; df=max(free*(1-ph)/(1+ph),1)
print("ar1",repr(r1),repr(ph))
for a,b in [(0,1),(1,2)]:
    d=means[b]-means[a]; h=stats.t.isf(.025,df)*np.sqrt(var*(infs[a]/len(seg[a])+infs[b]/len(seg[b])))
    print("effect",repr(d),repr(d-h),repr(d+h))
print("infl",repr(infl(15,.6)))
# interval of the mean of all values, as src/mean.rs has it
r1=acf(y,nlags=1,fft=False)[1]; ph=min(max((40*r1+1)/37,0),.95); f=infl(40,ph); free=max(40-f,1)
df=max(free*(1-ph)/(1+ph),1); h=stats.t.isf(.025,df)*np.sqrt(((y-y.mean())**2).sum()/free*f/40)
print("mean",repr(y.mean()-h),repr(y.mean()+h))
print([np.abs(s-np.median(s)).max()/ (1.4826*np.median(np.abs(s-np.median(s)))) for s in seg])
# a line in noise with a memory, as src/history/drift.rs has it: the error by dense matrices
import statsmodels.api as sm
z=.05*i+np.cos(.9*i)+.5*np.sin(2.3*i)
X=sm.add_constant(i-i.mean()); fit=sm.OLS(z,X).fit()
ph=min(max((40*acf(fit.resid,nlags=1,fft=False)[1]+2)/36,0),.95)
R=linalg.toeplitz(ph**i); inner=np.linalg.inv(X.T@X); M=np.eye(40)-X@inner@X.T
free=np.trace(M@R); error=np.sqrt(fit.ssr/free*(inner@X.T@R@X@inner)[1,1])
print("line",repr(fit.params[1]),repr(error),repr(free*(1-ph)/(1+ph)),repr(ph))
# log ratios that wander, as src/mean.rs has them: one standard error more
r1=acf(y,nlags=1,fft=False)[1]; ph=min((40*r1+1)/37,.95); raised=min(ph+np.sqrt((1-ph*ph)/40),.95)
R=linalg.toeplitz(raised**i); f=R.sum()/40; free=np.trace((np.eye(40)-1/40)@R); df=free*(1-raised)/(1+raised)
se=np.sqrt(((y-y.mean())**2).sum()/free*f/40); h=stats.t.isf(.025,df)*se
print("wanders",repr(ph),repr(df),repr(y.mean()-h),repr(y.mean()+h))
